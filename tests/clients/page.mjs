// Persons at the demo page.  Everything is found by the name that a screen reader would say.

function expect(condition, sentence) {
  if (!condition) throw new Error(sentence);
}

function stateOf(page) {
  const state = page.getByRole("status").first();
  return (text) => state.getByText(text).waitFor();
}

/**
 * Connect, subscribe, send, read, make a mistake, live through a restart of the gateway, leave.
 * @param job origin, where the page is; address, the WebSocket address it should find; wrong, a destination that the
 *            gateway refuses and the text it says then.
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
  await page.getByText(job.address, { exact: true }).waitFor();
  await reads("Not connected");
  expect(await page.getByRole("button", { name: "Send" }).isDisabled(), "Send is possible before Connect");

  await page.getByRole("button", { name: "Connect", exact: true }).focus();
  await page.keyboard.press("Enter");
  await reads(/^Connected to stomp-gateway.*, STOMP 1\.2$/);

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
  expect(complaints.length === 0, `the console says: ${complaints.join("; ")}`);
}

/** @param job origin, login, passcode; a wrong passcode is told and not tried again, the right one lets in. */
export async function login(page, job) {
  await page.goto(job.origin);
  const reads = stateOf(page);
  await page.getByText("Log in as").click();
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
  expect(await page.getByRole("button", { name: "Connect" }).isDisabled(), "Connect is possible without the library");
}
