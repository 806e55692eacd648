// examples/react_hook.js in a real React, which renders into memory.

import { Inbox, equal } from "./peer.mjs";

async function hooks(home) {
  const { createElement, StrictMode } = await import("react");
  const { act, create } = await import("react-test-renderer");
  const { Gateway, useConnected, useMessages } = await import(home.hooks);
  const { GatewayClient } = await import(home.helper);
  const gateway = new GatewayClient(new home.Stomp.Client({ brokerURL: home.url }), { delay: 20 });
  const shown = new Inbox("what is shown");
  let last = null;
  function Price({ symbol }) {
    const [newest] = useMessages(`/topic/${home.name}.${symbol}`);
    const text = `${useConnected() ? "connected" : "not connected"} ${newest?.body ?? "none"}`;
    if (text !== last) shown.put(text);
    last = text;
    return text;
  }
  const page = (symbol) =>
    createElement(StrictMode, null, createElement(Gateway.Provider, { value: gateway }, createElement(Price, { symbol })));
  const expects = async (text) => {
    let found = "";
    while (found !== text) found = await shown.next();
  };
  let root = null;
  const whole = async (step) => {
    globalThis.IS_REACT_ACT_ENVIRONMENT = true; // effects have run at the end of `act`
    await act(step);
    globalThis.IS_REACT_ACT_ENVIRONMENT = false;
  };
  await whole(() => (root = create(page("acme"))));
  await expects("not connected none");
  gateway.activate();
  await expects("connected none");
  await gateway.send(`/topic/${home.name}.acme`, "1");
  await expects("connected 1");
  await home.ask("cut");
  await expects("not connected 1");
  await expects("connected none"); // the topic has no stream
  await whole(() => root.update(page("other")));
  await gateway.send(`/topic/${home.name}.acme`, "2");
  await gateway.send(`/topic/${home.name}.other`, "3");
  await expects("connected 3");
  root.unmount();
  await gateway.deactivate();
  equal(shown.size, 0, "what is shown behind the end");
}

export const scenarios = { hooks };
