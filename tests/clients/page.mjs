// Persons at the demo page.  Everything is found by the name that a screen reader would say.

import { readFileSync } from "node:fs";

const AXE = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

function expect(condition, sentence) {
  if (!condition) throw new Error(sentence);
}

function stateOf(page) {
  const state = page.getByRole("status").first();
  return (text) => state.getByText(text).waitFor();
}

/**
 * See prices, open a second tab, copy the program, which is returned; subscribe, send, read, make a mistake, live
 * through a restart of the gateway, leave and come back.
 * @param job origin, where the page is; wrong, a destination that the gateway refuses and the text it says then.
 * @param ask "stop" ends the gateway, "start" starts it again.
 */
export async function walk(page, job, ask) {
  const complaints = [];
  let outage = false; // Chromium itself logs each attempt to connect that fails
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    const expected = outage && message.text().startsWith("WebSocket connection to");
    if (message.type() === "error" && !expected) complaints.push(message.text());
  });

  await page.goto(job.origin);
  const reads = stateOf(page);
  await reads(/^Connected to stomp-gateway.*, STOMP 1\.2$/);
  const prices = page.getByRole("list", { name: "Prices" }).getByRole("listitem");
  await prices.filter({ hasText: "this tab" }).getByText(/^\d+\.\d\d$/).waitFor();
  await secondTab(page, prices);
  const code = await copied(page, job.origin);
  for (const colorScheme of ["dark", "light"]) await clean(page, colorScheme);

  const subscribe = page.getByRole("region", { name: "Subscribe" });
  await subscribe.getByLabel("Destination").fill("/topic/walk");
  await page.keyboard.press("Enter");
  await subscribe.getByRole("listitem").getByText("/topic/walk").waitFor();

  const send = page.getByRole("region", { name: "Send" });
  const say = async (destination, body) => {
    await send.getByLabel("Destination").fill(destination);
    await send.getByLabel("Body").fill(body);
    await send.getByRole("button", { name: "Send" }).click();
  };
  const log = page.getByRole("log", { name: "Messages" });
  const body = "Gr\u00fc\u00dfe <b>bold</b> \u{1f44b}";
  await say("/topic/walk", body);
  const message = log.getByRole("listitem").filter({ hasText: body });
  await message.getByText("/topic/walk", { exact: true }).first().waitFor();
  await send.getByText("Accepted at").waitFor();
  await message.getByText("Headers").click();
  await message.getByText("text/plain;charset=utf-8").waitFor();

  // A queue is browsed, so a second subscription shows the same messages.
  for (const copies of [1, 2]) {
    await subscribe.getByLabel("Destination").fill("/queue/walk");
    await page.keyboard.press("Enter");
    await subscribe.getByText("This page browses /queue/walk").waitFor();
    if (copies === 1) await say("/queue/walk", "a job");
    await log.getByRole("listitem").filter({ hasText: "a job" }).nth(copies - 1).waitFor();
    await subscribe.getByRole("button", { name: "Unsubscribe from /queue/walk" }).click();
  }

  await say(job.wrong.destination, "to nobody");
  const alert = page.getByRole("alert");
  await alert.getByText(job.wrong.message).waitFor();
  await send.getByText("Refused").waitFor();
  await reads("Connected to stomp-gateway"); // the ERROR ended the session; the page is back
  await subscribe.getByLabel("Destination").fill(job.wrong.destination);
  await page.keyboard.press("Enter");
  await subscribe.getByText(job.wrong.destination, { exact: true }).waitFor({ state: "detached" });
  await alert.getByText(job.wrong.message).waitFor();
  await reads("Connected to stomp-gateway"); // and does not ask for the refused destination again
  await alert.getByRole("button", { name: "Dismiss" }).click();
  await alert.waitFor({ state: "hidden" });

  outage = true;
  await ask("stop");
  await reads("Connection lost");
  await ask("start");
  await reads("Connected to stomp-gateway");
  outage = false;
  expect(await alert.isHidden(), "a restart is shown as an error");
  await say("/topic/walk", "after the restart");
  await log.getByText("after the restart").waitFor();

  await page.setViewportSize({ width: 360, height: 640 });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width <= 360, `the page is ${width} px wide on a phone of 360`);

  await page.getByRole("button", { name: "Disconnect" }).click();
  await reads("Not connected");
  expect((await prices.count()) === 0, "prices stay when they cannot change");
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await prices.getByText("this tab").waitFor();
  expect(complaints.length === 0, `the console says: ${complaints.join("; ")}`);
  return code;
}

/** It shows up in the first one, says something there, and takes its leave. */
async function secondTab(page, prices) {
  const opening = page.context().waitForEvent("page");
  await page.getByRole("link", { name: "Open a second tab" }).click();
  const second = await opening;
  await stateOf(second)("Connected to stomp-gateway");
  await prices.nth(1).getByText(/^\d+\.\d\d$/).waitFor();
  await page.getByText("is here, too").waitFor();
  await second.getByRole("button", { name: "Send" }).click();
  await page.getByRole("log", { name: "Messages" }).getByText("Hello, other tab").waitFor();
  await second.goto("about:blank");
  await page.getByText("No other tab is open").waitFor();
  await second.close();
}

/** The program beside the prices, as its button copies it. */
async function copied(page, origin) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin });
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}

/** axe-core finds nothing at all. */
async function clean(page, colorScheme) {
  await page.emulateMedia({ colorScheme });
  await page.evaluate(AXE); // over the debugger's wire, so the page's own policy stays as it is
  const { violations } = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  const found = violations.map((each) => `${each.id} (${each.nodes.map((node) => node.target)})`);
  expect(found.length === 0, `axe finds in ${colorScheme} colours: ${found.join("; ")}`);
}

/** @param job origin, destination: a rule keeps the page from its own topic, which it is told once and no more. */
export async function forbidden(page, job) {
  await page.goto(job.origin);
  await page.getByRole("alert").getByText(job.message).waitFor();
  await page.getByText("The rules of this gateway forbid /topic/demo").waitFor();
  await stateOf(page)("Connected to stomp-gateway");
  await page.getByRole("region", { name: "Send" }).getByRole("button", { name: "Send" }).click();
  await page.getByRole("log", { name: "Messages" }).getByText("Hello, other tab").waitFor();
}

/** @param job origin, login, passcode; a wrong passcode is told and not tried again, the right one lets in. */
export async function login(page, job) {
  await page.goto(job.origin);
  const reads = stateOf(page);
  await page.getByText("asks for a login").waitFor();
  expect(await page.getByRole("alert").isHidden(), "nothing has gone wrong yet");
  await page.getByLabel("Login").fill(job.login);
  await page.getByLabel("Passcode").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText(job.refusal).waitFor();
  await reads("Not connected");
  await page.getByLabel("Passcode").fill(job.passcode);
  await page.keyboard.press("Enter");
  await reads("Connected to stomp-gateway");
  expect(await page.getByRole("alert").isHidden(), "the refusal is still shown");
}

/** @param job origin; the page of a gateway whose static/vendor was never built says what to do. */
export async function incomplete(page, job) {
  await page.route("**/vendor/**", (route) => route.fulfill({ status: 404 }));
  await page.goto(job.origin);
  await page.getByRole("alert").getByText("make static").waitFor();
  expect(await page.getByRole("button", { name: "Send" }).isDisabled(), "Send is possible without the library");
}
