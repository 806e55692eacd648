// Names of destinations: the names of queues in the lists, and what people call the hidden ones.

import { html, nothing } from "./html.js";
import { link } from "./router.js";

/** The name of a queue in the lists: clients may leave its start out, or write RabbitMQ's. */
export function listed(name) {
  if (name.startsWith("/amq/queue/")) return `/queue/${name.slice("/amq/queue/".length)}`;
  return name.startsWith("/") ? name : `/queue/${name}`;
}

/** What clients cannot send to: a durable subscription gets messages by its topic alone, and presence by the gateway. */
export const isHidden = (row) => Boolean(row.durable_subscription) || row.name.startsWith("/presence/");

const MAY_BREAK = html`<wbr />`;

/** A name, which may be cut behind a point, a slash or an @, but not before its wildcard: a long one takes several lines. */
export const cut = (name) => name.split(/(?<=[./@])(?![*#>]$)/).flatMap((part, place) => (place ? [MAY_BREAK, part] : [part]));

/** A destination as a link: by the name that its users gave it. */
export function destinationLink({ name, title, durable_subscription: durable }) {
  return html`<a class="mono" href=${link("destination", { name })} title=${name}>${cut(title ?? name)}</a>
    ${durable ? html`<span class="quiet beside">${whose(durable)}</span>` : nothing}`;
}

/** The queue of a durable subscription by its login or name and its topic, as far as the gateway's name for it tells. */
export function called(name) {
  if (!name.startsWith("/dsub/")) return name;
  const [login, , id = login, topic] = name.slice("/dsub/".length).split("/").map(plain);
  if (!topic) return `durable subscription ${id}`;
  return `${login === "anonymous" ? id : login}: ${topic}`;
}

/** A part of such a name; one that was cut within a letter stays as it is. */
function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** "shared subscription stock", "durable subscription led of ledger" */
export function whose({ login, client_id: client, name, shared }) {
  if (shared) return `shared subscription ${name}`;
  return `durable subscription ${name} of ${[login, client].filter(Boolean).join(", client ")}`;
}

/** A client as a link: by its login and the client id that it gave, then by its address; its id is for the log. */
export function sessionLink(id, login, client, peer = "") {
  if (!id) return "none";
  return html`<a href=${link("session", { id })} title=${`session ${id}`}>${cut(clientName(login, client))}</a>
    <span class="quiet beside mono">${peer || id}</span>`;
}

export const clientName = (login, client) => [login || "anonymous", client].filter(Boolean).join(" · ");
