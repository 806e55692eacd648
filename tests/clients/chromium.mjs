// Runs the scenarios, the persons at the demo page, examples/browser.js, and a reader of the documentation's site, in
// headless Chromium.
//
//   node chromium.mjs CHROMIUM
//
// Every job has a fresh browser context, and fails besides when the page asked for anything outside `job.origin`.
// The scenarios run in the demo page, under its own Content-Security-Policy and with the library it serves; the
// one thing slipped in is their source, answered at the page's origin in the server's place.  `job.file` has them; else
// scenarios.mjs.

import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

import { converse } from "./conversation.mjs";
import { forbidden, incomplete, login, walk } from "./page.mjs";
import { site } from "./site.mjs";

const PATIENCE = 8_000;
const HERE = fileURLToPath(new URL(".", import.meta.url));
const LIBRARY = fileURLToPath(new URL("../../node_modules/@stomp/stompjs/esm6", import.meta.url));

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: [
    "--no-sandbox", // Chromium refuses to start as root with it, and loads nothing but our own page here
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

async function scenario(page, job, ask) {
  const source = (route) =>
    route.fulfill({ path: HERE + route.request().url().split("/").pop(), contentType: "text/javascript" });
  await page.route("**/*.mjs", source);
  await page.exposeFunction("ask", ask);
  await page.goto(job.origin);
  return page.evaluate(async (job) => {
    const { scenarios } = await import(`/${job.file ?? "scenarios.mjs"}`);
    return scenarios[job.scenario]({ Stomp: globalThis.StompJs, ...job, ask: globalThis.ask });
  }, job);
}

/**
 * examples/browser.js as a page's module; the import map says where the library is.  Returns its first words.
 * The page starts as a real one of the gateway's, because Chromium lets only pages that came from loopback connect
 * to loopback; the job's context switches off that page's Content-Security-Policy, which forbids the import map.
 */
async function example(page, job) {
  const script = (route) => route.fulfill({ body: job.source, contentType: "text/javascript" });
  const library = (route) =>
    route.fulfill({ path: LIBRARY + route.request().url().split("/esm6").pop(), contentType: "text/javascript" });
  const map = JSON.stringify({ imports: { "@stomp/stompjs": "/esm6/index.js" } });
  await page.route("**/esm6/**", library);
  await page.route("**/browser.js", script);
  await page.goto(`${job.origin}healthz`);
  const said = page.waitForEvent("console", (message) => message.type() === "log");
  await page.setContent(
    `<script type="importmap">${map}</script><script type="module" src="/browser.js"></script>`,
  );
  return (await said).text();
}

/** A whole page of an application, at the origin of the gateway's pages; returns once it has that title. */
async function application(page, job) {
  await page.goto(`${job.origin}healthz`);
  await page.setContent(job.source);
  await page.waitForFunction((title) => document.title === title, job.title);
}

const kinds = { walk, login, forbidden, incomplete, example, application, site };

await converse(async (job, ask) => {
  const context = await browser.newContext(job.context);
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const strange = [];
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(job.origin).origin) strange.push(request.url());
  });
  try {
    const result = await (kinds[job.scenario] ?? scenario)(page, job, ask);
    if (strange.length) throw new Error(`the page asked for ${strange.join(", ")}`);
    return result;
  } finally {
    await context.close();
  }
});
await browser.close();
