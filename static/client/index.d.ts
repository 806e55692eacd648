import type { Client, IFrame, IMessage, StompHeaders } from "@stomp/stompjs";

export interface GatewayOptions {
  /** The token or ticket for the next connection, and for renewals; it goes into `passcode`. */
  token?: () => string | Promise<string>;
  /** Errors that no promise and no subscription reports: of a login, of `token`, of a frame. Default: console.error. */
  onError?: (error: StompError | Error) => void;
  /** Milliseconds: the longest first pause before another attempt; it doubles with each. Default: 1,000. */
  delay?: number;
  /** Milliseconds: the longest pause. Default: 30,000. */
  maxDelay?: number;
}

export interface SubscribeOptions {
  /** Other headers of the SUBSCRIBE. */
  headers?: StompHeaders;
  /** Where a stream begins: a number (`seq`), a time, its first or last message. Default: the next message. */
  from?: number | Date | "first" | "last";
  /** The name under which the gateway keeps the position; a message is acknowledged once the callback has ended. */
  resume?: string;
  /** Messages may have been missed. Load the state anew: the messages that follow are newer. */
  onGap?: (gap: { destination: string; /** number of the first message still there */ firstSeq?: number }) => void;
  /** The gateway has refused the subscription, which has ended. Default: the client's `onError`. */
  onError?: (error: StompError) => void;
}

export interface RequestOptions {
  headers?: StompHeaders;
  /** Milliseconds until the promise is rejected. Default: 10,000. */
  timeout?: number;
}

/** An ERROR of the gateway; `message` is its short sentence. */
export class StompError extends Error {
  /** What is wrong in full, and what to do. */
  readonly detail: string;
  readonly frame: IFrame;
  /** The client has stopped: another attempt would end in the same way. */
  readonly isFinal: boolean;
}

/** Milliseconds until the next attempt, after so many failures in a row. */
export function backoff(
  failures: number,
  options?: { delay?: number; maxDelay?: number; retryAfter?: number },
  random?: () => number,
): number;

/** A ticket, for a page that has a cookie and no token: `token: () => fetchTicket()`. */
export function fetchTicket(url?: string, options?: RequestInit): Promise<string>;

export class GatewayClient {
  /** `client` is not active yet. Its own callbacks are called, too; time between attempts is no longer its business. */
  constructor(client: Client, options?: GatewayOptions);

  readonly client: Client;

  activate(): void;

  /** Disconnect. Messages without RECEIPT and requests without an answer are rejected. */
  deactivate(): Promise<void>;

  /**
   * Call `action` after each CONNECTED, and now if connected. If it returns a function, that is called when the
   * connection ends. Returns a function that takes `action` off the list.
   */
  onConnect(action: () => void | (() => void)): () => void;

  /** Subscribe now, and after each CONNECTED. Returns a function that unsubscribes; it takes headers. */
  subscribe(
    destination: string,
    callback: (message: IMessage) => void | Promise<void>,
    options?: SubscribeOptions,
  ): (headers?: StompHeaders) => void;

  /** Send over as many connections as it takes, once. Resolves with the RECEIPT; rejected: a StompError. */
  send(destination: string, body: string | Uint8Array, headers?: StompHeaders): Promise<void>;

  /** Ask, and resolve with the answer. A question is asked once: if its connection is lost, it is rejected. */
  request(destination: string, body: string | Uint8Array, options?: RequestOptions): Promise<IMessage>;
}
