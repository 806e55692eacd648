// A reader of the documentation's site: what its copy buttons copy, what its search finds, and the way to a page.

function expect(condition, sentence) {
  if (!condition) throw new Error(sentence);
}

/**
 * @param job origin, where the site is; copy, a page with commands and their output; find, words and the page they lead
 *   to; table, a page with a wide table; diagram, a page with one.
 */
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

  expect((await page.getByRole("navigation", { name: /^$/ }).count()) === 0, "parts for navigation have no name");

  await page.goto(job.origin + job.diagram);
  for (const name of ["light", "dark"]) {
    const diagrams = page.locator(`article img[src*=".${name}.svg"]`);
    await page.emulateMedia({ colorScheme: name === "light" ? "dark" : "light" });
    if (!(await diagrams.first().isVisible())) await page.getByTitle(/^(Dark|Light)$/).filter({ visible: true }).click();
    await diagrams.first().waitFor({ state: "visible" });
    expect((await page.locator("article img").filter({ visible: true }).count()) === (await diagrams.count()), name);
  }

  const wide = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(job.origin + job.table);
  const table = page.locator("article table").first();
  expect(await table.evaluate((each) => each.getBoundingClientRect().right <= innerWidth), "a table is wider than a phone");
  expect((await table.locator("td").nth(1).getAttribute("data-label")) === "stomp-gateway", "a cell has no name");
  await page.setViewportSize(wide);

  await page.keyboard.press("/");
  await page.getByRole("textbox", { name: "Search" }).pressSequentially(job.find.words); // keys, which the theme listens to
  await page.getByRole("search").getByRole("heading", { name: job.find.title, exact: true }).click();
  await page.waitForURL(`**/${job.find.page}*`);
  expect(complaints.length === 0, `the page says: ${complaints.join("; ")}`);
}
