// Numbers, sizes and times as a person reads them.  `null` and `undefined` are a dash: not known, or not there.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const DASH = "–";

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/** 12,345 */
export function count(value) {
  return missing(value) ? DASH : WHOLE.format(value);
}

/** Three digits that count: 0.42, 8.25, 812, 12.4k, 3.1M. */
export function short(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}G`;
  if (size >= 1e6) return `${digits(value / 1e6)}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}k`;
  return size >= 100 || Number.isInteger(value) ? WHOLE.format(value) : digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (size < 0.005) return "0";
  return value
    .toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");
}

/** 512 B, 21.5 MiB */
export function octets(value) {
  if (missing(value)) return DASH;
  for (const [unit, size] of [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ]) {
    if (value >= size) return `${digits(value / size)} ${unit}`;
  }
  return `${WHOLE.format(value)} B`;
}

/** Of milliseconds: 850 µs, 1.2 ms, 3.5 s */
export function millis(value) {
  if (missing(value)) return DASH;
  if (value >= 1000) return `${digits(value / 1000)} s`;
  return value < 1 && value > 0 ? `${digits(value * 1000)} µs` : `${digits(value)} ms`;
}

/** Of microseconds. */
export function micros(value) {
  return missing(value) ? DASH : millis(value / 1000);
}

/** Of seconds: the two greatest units. */
export function duration(seconds) {
  if (missing(seconds)) return DASH;
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
  ];
  parts.push([Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]);
  const first = parts.findIndex(([size]) => size > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([size]) => size > 0)
    .map(([size, unit]) => `${size} ${unit}`)
    .join(" ");
}

/** Of seconds that are set: 50 ms, 1.5 s, 1 d. */
export const period = (seconds) => (seconds < 60 ? millis(seconds * 1000) : duration(seconds));

/** Of seconds that something has lasted, or much longer. */
export function lasting(seconds, isLeast = false) {
  return missing(seconds) ? DASH : `${isLeast ? "≥ " : ""}${duration(seconds)}`;
}

/** How long ago, of seconds since the epoch. */
export function age(at) {
  return missing(at) ? DASH : duration(Date.now() / 1000 - at);
}

const two = (value) => String(value).padStart(2, "0");

/** 14:03:07, of seconds since the epoch. */
export function clock(at) {
  if (missing(at)) return DASH;
  const date = new Date(at * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** 2026-11-21 14:03:07, of seconds since the epoch. */
export function date(at) {
  if (missing(at)) return DASH;
  const day = new Date(at * 1000);
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())} ${clock(at)}`;
}

/** Seconds since the epoch, of ISO 8601. */
export function epoch(text) {
  return text ? Date.parse(text) / 1000 : null;
}

/** A count and its noun. */
export function many(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

/** What the API says, where nothing stands before it. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A setting, a policy's value: as TOML would have it, more or less. */
export function value(found) {
  if (missing(found) || found === "" || found.length === 0) return "none";
  if (Array.isArray(found) && found.every((each) => typeof each !== "object")) return found.join(", ");
  return typeof found === "string" ? found : JSON.stringify(found);
}
