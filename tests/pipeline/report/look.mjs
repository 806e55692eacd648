// Opens a report from disk in headless Chromium, with the network off, and says what a person would see.
//
//   node look.mjs CHROMIUM
//
// A job has `url`, `media` (screen or print), and `context`: options of Playwright's browser context (colorScheme,
// viewport).  It fails when the page says anything on the console, or asks for anything but itself.

import { chromium } from "playwright-core";

import { converse } from "../../clients/conversation.mjs";

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
});

/** In the page: its text, its figures, and how it is laid out.  Every folded part is opened first. */
function describe() {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const figures = {};
  const rows = [];
  for (const each of document.querySelectorAll("[data-figure]")) {
    const row = each.closest("tr");
    if (row === null) figures[each.dataset.figure] = each.dataset.value;
    else rows.push({ ...row.dataset, in: row.closest("section").id, figure: each.dataset.figure, value: each.dataset.value });
  }
  const colours = (element) => {
    const style = getComputedStyle(element);
    return { text: style.color, ground: style.backgroundColor };
  };
  const charts = [...document.querySelectorAll("svg[role=img]")].map((svg) => {
    const ids = svg.getAttribute("aria-labelledby").split(" ");
    const box = svg.getBoundingClientRect();
    return { id: svg.id, said: ids.map((id) => document.getElementById(id).textContent), width: box.width, height: box.height };
  });
  const width = document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll("body *:not(.scroll *):not(svg *)")].filter(
    (each) => each.getBoundingClientRect().right > width + 1,
  );
  const texts = [...document.querySelectorAll("svg text")].filter((each) => getComputedStyle(each).display !== "none");
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  return {
    title: document.title,
    text: document.body.innerText,
    figures,
    rows,
    charts,
    sections: [...document.querySelectorAll("section")].map((each) => each.id),
    body: colours(document.body),
    notice: [...document.querySelectorAll(".notice")].map(colours),
    wide: wide.map((each) => each.outerHTML.slice(0, 200)),
    scroll: document.documentElement.scrollWidth - width,
    smallest: Math.min(...texts.map((each) => parseFloat(getComputedStyle(each).fontSize)), 99),
    cut: texts.filter((each) => each.getBoundingClientRect().left < 0).map((each) => each.textContent),
    scripts: document.querySelectorAll("script, iframe, object, embed, [onload], [onclick]").length,
    repeated: ids.filter((id, place) => ids.indexOf(id) !== place),
  };
}

await converse(async (job) => {
  const context = await browser.newContext({ ...job.context, offline: true });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => complaints.push(`dialog: ${dialog.message()}`));
  page.on("request", (request) => {
    if (request.url() !== job.url && !request.url().startsWith("data:")) complaints.push(`asked for ${request.url()}`);
  });
  try {
    await page.emulateMedia({ media: job.media, colorScheme: job.context.colorScheme ?? "light" });
    await page.goto(job.url);
    const seen = await page.evaluate(describe);
    if (complaints.length) throw new Error(complaints.join("; "));
    return seen;
  } finally {
    await context.close();
  }
});
await browser.close();
