// What the page shows before anything is typed: each open tab sends a price a second to one topic, and draws all that
// comes from there.  A sender is known by its header `from`; an empty body is its farewell.

export const TOPIC = "/topic/demo";
export const RECEIPT = "price"; // of every price, so that a refusal names it

const EACH = 1000; // milliseconds
const GONE = 90_000; // milliseconds without a price; browsers let a hidden tab work once a minute
const KEEP = 60; // prices drawn of one sender
const MOST = 8; // senders shown
const [WIDTH, HEIGHT] = [240, 40]; // of a line's view box

const TEAS = ["Assam", "Bancha", "Ceylon", "Darjeeling", "Gunpowder", "Keemun", "Matcha", "Oolong", "Rooibos", "Sencha"];
const NUMBER = 10 + Math.floor(Math.random() * 90);

/** The sender that this tab is. */
export const NAME = `${TEAS[Math.floor(Math.random() * TEAS.length)]} ${NUMBER}`;

export class Market {
  /**
   * @param parts list and template of the senders' items
   * @param publish publish(body, headers) to the topic
   * @param hooks counted(senders), how many there are; returned(milliseconds), the way of a price there and back
   */
  constructor(parts, publish, hooks) {
    Object.assign(this, { parts, publish, hooks });
    this.senders = new Map(); // name -> { item, prices, at: when the last one came }
    this.price = 40 + 20 * Math.random();
    this.timer = 0;
    this.sentAt = 0;
  }

  open() {
    this.close();
    this.timer = setInterval(() => this.send(), EACH);
    this.send();
  }

  close() {
    clearInterval(this.timer);
  }

  /** The last word to the other tabs. */
  leave() {
    this.close();
    this.publish("", { from: NAME });
    for (const name of [...this.senders.keys()]) this.remove(name);
  }

  send() {
    for (const [name, { at }] of this.senders) if (Date.now() - at > GONE) this.remove(name);
    this.price = Math.max(1, this.price + Math.random() - 0.5);
    this.sentAt = performance.now();
    this.publish(this.price.toFixed(2), { from: NAME, receipt: RECEIPT });
  }

  /** What came from the topic. */
  take(message) {
    const name = message.headers.from ?? "A program";
    if (!message.body) return this.remove(name);
    const sender = this.senders.get(name) ?? this.add(name);
    const price = Number(message.body);
    sender.at = Date.now();
    sender.item.querySelector(".price").textContent = message.body.slice(0, 12);
    if (Number.isFinite(price)) draw(sender, price);
    if (name === NAME) this.hooks.returned(performance.now() - this.sentAt);
  }

  add(name) {
    if (this.senders.size >= MOST) this.remove([...this.senders.keys()].find((each) => each !== NAME));
    const item = this.parts.template.content.cloneNode(true).firstElementChild;
    item.querySelector(".name").textContent = name;
    item.querySelector(".own").hidden = name !== NAME;
    if (name === NAME) this.parts.list.prepend(item);
    else this.parts.list.append(item);
    const sender = { item, prices: [], at: 0 };
    this.senders.set(name, sender);
    this.hooks.counted([...this.senders.keys()]);
    return sender;
  }

  remove(name) {
    this.senders.get(name)?.item.remove();
    if (this.senders.delete(name)) this.hooks.counted([...this.senders.keys()]);
  }
}

function draw({ item, prices }, price) {
  const before = prices.at(-1);
  prices.push(price);
  if (prices.length > KEEP) prices.shift();
  const [low, high] = [Math.min(...prices), Math.max(...prices)];
  const step = WIDTH / Math.max(prices.length - 1, KEEP / 4);
  const height = (each) => HEIGHT - 3 - ((HEIGHT - 6) * (each - low)) / (high - low || 1);
  const place = (index) => WIDTH - (prices.length - 1 - index) * step; // the last one at the right edge
  const points = prices.map((each, index) => `${place(index).toFixed(1)},${height(each).toFixed(1)}`);
  item.querySelector("polyline").setAttribute("points", points.join(" "));
  const change = price - (before ?? price);
  item.querySelector(".change").textContent = `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(2)}`;
  item.querySelector(".change").dataset.way = change < 0 ? "down" : "up";
}
