import { Client } from "@stomp/stompjs";

const client = new Client({ brokerURL: "ws://127.0.0.1:15674/ws" });
client.onConnect = () => {
  client.subscribe("/topic/done", (message) => console.log(message.body));
  client.publish({ destination: "/queue/work", body: "tea for two" });
};
client.activate();
