// A reader of the documentation's site: what its copy buttons copy, what its search finds, and the way to a page.

function expect(condition, sentence) {
  if (!condition) throw new Error(sentence);
}

/** @param job origin, where the site is; copy, a page with commands and their output; find, words and the page they lead to. */
export async function site(page, job) {
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: job.origin });

  await page.goto(`${job.origin}index.html`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  const entries = page.locator(".entries").getByRole("link");
  expect((await entries.count()) === 3, "the front page has three entries");
  expect(await page.locator(".picture img").evaluate((image) => image.naturalWidth > 0), "its picture is not there");

  await page.goto(job.origin + job.copy);
  const blocks = page.locator(".highlight", { has: page.locator(".gp") });
  expect((await blocks.count()) > 0, `${job.copy} shows no commands`);
  for (const block of await blocks.all()) {
    const typed = (await block.locator("code").innerText()).match(/^\$ (.*\\\n)*.*$/gm);
    await block.hover();
    await block.getByRole("button", { name: "Copy" }).click();
    const copied = (await page.evaluate(() => navigator.clipboard.readText())).trim();
    expect(copied === typed.map((each) => each.slice(2)).join("\n"), `the button copies ${copied}`);
  }

  await page.keyboard.press("/");
  await page.getByRole("textbox", { name: "Search" }).pressSequentially(job.find.words); // keys, which the theme listens to
  await page.getByRole("search").getByRole("heading", { name: job.find.title, exact: true }).click();
  await page.waitForURL(`**/${job.find.page}*`);
  expect(complaints.length === 0, `the page says: ${complaints.join("; ")}`);
}
