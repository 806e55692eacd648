// The body of a message: as JSON with indents, as text, or as bytes; the first that fits, and the others by a click.

import { copyButton } from "./copy.js";
import { octets } from "./format.js";
import { html, nothing, ref, render } from "./html.js";
import { switcher } from "./parts.js";

const MOST_HEX = 8 * 1024; // bytes; each line of 16 is 75 characters
const DEEPEST = 200; // JSON values within each other

/** @param message size, body, body_encoding ("utf-8", or "base64" where it is no text) */
export function bodyOf(message) {
  const bytes = bytesOf(message);
  const views = viewsOf(message, bytes);
  const rest = bytes.length > MOST_HEX ? restOf(bytes, message.size) : nothing;
  const draw = (element, name) =>
    render(picture(views, name, name === "Hex" ? rest : nothing, (other) => draw(element, other)), element);
  return html`<div class="stack" ${ref((element) => element && draw(element, Object.keys(views)[0]))}></div>`;
}

function picture(views, name, rest, choose) {
  const names = Object.keys(views);
  return html`<div class="card-head">
      <h3>Body</h3>
      ${names.length > 1 ? switcher(names, name, choose) : nothing}
      ${views[name] ? copyButton(views[name], rest === nothing ? "the body" : "these bytes") : nothing}
    </div>
    ${rest}
    ${views[name] ? html`<pre class="body ${name === "Hex" ? "columned" : ""}" role="group" tabindex="0" aria-label="Body">${views[name]}</pre>` : nothing}`;
}

/** What the view of bytes leaves out, and a way to get it; the gateway may have cut the body, too. */
function restOf(bytes, size) {
  const all = bytes.length < size ? `the first ${octets(bytes.length)}` : "the body";
  return html`<p class="quiet">
    First ${octets(MOST_HEX)} of ${octets(size)}.
    <button type="button" class="plain" @click=${() => download(bytes)}>Download ${all}</button>
  </p>`;
}

function download(bytes) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = "body";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // by then the browser has begun
}

function bytesOf({ body: text, body_encoding: encoding }) {
  if (encoding !== "base64") return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

/** View -> text, the best one first. */
function viewsOf({ body: text, body_encoding: encoding }, bytes) {
  if (!text) return { Text: "" };
  if (encoding === "base64") return { Hex: hex(bytes), Base64: text };
  const indented = json(text);
  return { ...(indented === null ? {} : { JSON: indented }), Text: text, Hex: hex(bytes) };
}

/** JSON with indents; null: it is none, or too deep.  Its numbers stay as they are written: a parser would round long ones. */
function json(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
    return indented(text);
  } catch {
    return null;
  }
}

/** Raises RangeError where values stand deeper than `DEEPEST`: the indents alone would take all memory. */
function indented(text) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[^\s"[\]{},:]+|[[\]{},:]/g);
  return tokens
    .map((token, place) => {
      const next = tokens[place + 1];
      if ("[{".includes(token)) {
        if ("]}".includes(next)) return token;
        depth += 1;
        if (depth > DEEPEST) throw new RangeError();
        return token + line();
      }
      if ("]}".includes(token)) {
        if ("[{".includes(tokens[place - 1])) return token;
        depth -= 1;
        return line() + token;
      }
      if (token === ",") return token + line();
      return token === ":" ? ": " : token;
    })
    .join("");
}

/** Lines of an offset, 16 bytes, and what of them is printable. */
function hex(bytes) {
  const lines = [];
  for (let start = 0; start < Math.min(bytes.length, MOST_HEX); start += 16) {
    const some = [...bytes.slice(start, start + 16)];
    const digits = some.map((each) => each.toString(16).padStart(2, "0"));
    const text = some.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : "."));
    const columns = `${digits.slice(0, 8).join(" ")}  ${digits.slice(8).join(" ")}`;
    lines.push(`${start.toString(16).padStart(6, "0")}  ${columns.padEnd(48)}  ${text.join("")}`);
  }
  return lines.join("\n");
}
