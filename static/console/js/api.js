// The admin API: one call, and the three ways in which it ends otherwise.
//
// `Unreachable` is a gateway that does not answer, or a proxy that says so for it; `NeedsLogin` a 401; `Refused` the
// gateway's own sentence, or the refusal of a server in front of it.  What all of the console must know of a call (the
// gateway is away, a login is needed) is told by events, so that no page repeats it.

const BASE = new URL("../api/v1/", document.baseURI);
const CHANGES = new Set(["POST", "PUT", "DELETE"]);
const AWAY = new Set([502, 503, 504]);
const TIMEOUT = 20_000; // milliseconds; a list of 100,000 takes far less

/** "away", "here" and "login" */
export const news = new EventTarget();

let csrf = null;

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export class Unreachable extends Error {}
export class NeedsLogin extends Error {}

/** The token that changes need with the cookie; null: they need none. */
export function useCsrf(token) {
  csrf = token;
}

/** Address of something of the API. */
export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/**
 * The answer as an object, or null for one without content.
 * @param options query, body, signal
 * @throws Refused, NeedsLogin, Unreachable, or AbortError by `signal`
 */
export async function call(method, path, { query, body, signal } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (csrf && CHANGES.has(method)) headers["x-csrf-token"] = csrf;
  const bound = AbortSignal.timeout(TIMEOUT);
  let response, content;
  try {
    response = await fetch(address(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, bound]) : bound,
      cache: "no-store",
    });
    content = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw away("The gateway does not answer");
  }
  const answer = parsed(content);
  if (AWAY.has(response.status) && !answer?.error) throw away("The proxy does not reach the gateway");
  news.dispatchEvent(new Event("here"));
  if (response.ok) return answer;
  if (!answer?.error) throw foreign(response);
  if (response.status === 401 && path !== "login") throw needsLogin(answer);
  throw new Refused(response.status, answer.error);
}

/** The gateway gives its reasons in JSON, so an answer of another kind comes from a server in front of it. */
function foreign({ status, statusText }) {
  const did = [401, 403].includes(status) ? "refused this" : "answered";
  const words = `${status} ${statusText}`.trim(); // HTTP/2 has no words
  return new Refused(status, `A server in front of the gateway, probably its proxy, ${did} (${words})`);
}

function parsed(content) {
  try {
    return content ? JSON.parse(content) : null;
  } catch {
    return null;
  }
}

function away(sentence) {
  news.dispatchEvent(new CustomEvent("away", { detail: sentence }));
  return new Unreachable(sentence);
}

function needsLogin(answer) {
  news.dispatchEvent(new CustomEvent("login", { detail: answer?.methods ?? ["token"] }));
  return new NeedsLogin(answer?.error ?? "Log in first");
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body) => call("POST", path, { body });
export const remove = (path, query) => call("DELETE", path, { query });
