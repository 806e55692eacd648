// React hooks for the page helper (docs/page-helper.md): an application makes one GatewayClient, and activates it.
//
//     <Gateway.Provider value={gateway}><Price symbol="acme" /></Gateway.Provider>
//
//     function Price({ symbol }) {
//       const [message] = useMessages(`/topic/prices.${symbol}`);
//       return useConnected() ? message?.body : "…";
//     }

import { createContext, useContext, useEffect, useState } from "react";

/** The GatewayClient of the components below. */
export const Gateway = createContext(null);

/** True while there is a connection. */
export function useConnected() {
  const gateway = useContext(Gateway);
  const [isConnected, setConnected] = useState(false);
  useEffect(() => {
    const leave = gateway.onConnect(() => {
      setConnected(true);
      return () => setConnected(false);
    });
    return () => void leave();
  }, [gateway]);
  return isConnected;
}

/** The last messages of a destination, the newest first.  After a gap it begins anew. */
export function useMessages(destination, count = 1) {
  const gateway = useContext(Gateway);
  const [messages, setMessages] = useState([]);
  useEffect(() => {
    const take = (message) => setMessages((before) => [message, ...before].slice(0, count));
    const unsubscribe = gateway.subscribe(destination, take, { onGap: () => setMessages([]) });
    return () => {
      unsubscribe();
      setMessages([]);
    };
  }, [gateway, destination, count]);
  return messages;
}
