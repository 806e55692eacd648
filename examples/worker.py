import stomp


class Worker(stomp.ConnectionListener):
    def on_message(self, frame):
        connection.send("/topic/done", f"{frame.body}: done")
        connection.ack(frame.headers["ack"])


connection = stomp.Connection12([("127.0.0.1", 61613)], heartbeats=(10_000, 10_000))
connection.set_listener("worker", Worker())
connection.connect(wait=True)
connection.subscribe("/queue/work", id="1", ack="client-individual")
input("Working; press Enter to stop.\n")
connection.disconnect()
