// The gateway, the browser, and what tests do with the page.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

export const TOKEN = "a token for tests only";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts the gateway, and returns its page's address and a function that stops it. */
export async function startGateway(listen = "127.0.0.1:0") {
  const child = spawn(process.env.GATEWAY, ["--serve", "--listen", listen], {
    env: { ...process.env, DAMPER_TOKEN: TOKEN },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /^(http:\/\/(\S+)\/damper) /.exec(line);
    if (found) {
      const stop = async () => {
        const ended = once(child, "exit");
        child.kill();
        await ended;
      };
      return { url: found[1], listen: found[2], stop };
    }
  }
  throw new Error("the gateway ended");
}

/**
 * Starts a proxy that passes paths that begin with `from` on as ones that begin with `to`, and returns its address and a function that stops it.
 *
 * One that buffers passes a response on when it has ended, one that is exact passes no path on but `from`, and one may rewrite the host.
 */
export async function startProxy(target, from, to, { buffers = false, isExact = false, rewritesHost = false } = {}) {
  const [host, port] = target.split(":");
  const server = createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith(from) || (isExact && incoming.url !== from)) return outgoing.writeHead(404).end();
    const path = to + incoming.url.slice(from.length);
    const passed = request({ host, port, path, method: incoming.method, headers: { ...incoming.headers, ...(rewritesHost && { host: target }) } }, async (response) => {
      outgoing.on("close", () => response.destroy());
      const parts = buffers ? [] : null;
      if (parts) try { for await (const part of response) parts.push(part); } catch { return; }
      outgoing.writeHead(response.statusCode, response.headers);
      if (parts) outgoing.end(Buffer.concat(parts)); else response.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    incoming.pipe(passed);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = () => { server.close(); server.closeAllConnections(); };
  return { url: `http://127.0.0.1:${server.address().port}${from}`, stop };
}

export function startBrowser() {
  return puppeteer.launch({ executablePath: process.env.CHROMIUM, headless: true, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** Opens the page, and notes what must not happen on it. In a window of its own it is seen while others are, too. */
export async function openPage(browser, url, { width = 1280, height = 900, scheme = "light", window = false } = {}) {
  const page = await browser.newPage();
  if (window) await (await page.createCDPSession()).send("Emulation.setFocusEmulationEnabled", { enabled: true });
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error}`));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) faults.push(`request: ${request.url()}`);
  });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url);
  await page.waitForSelector("#connection[data-state=live]", { timeout: 30_000 });
  return { page, faults };
}

/** Opens the page with these events for a stream, instead of the gateway's. */
export async function openPageOf(browser, url, hello, samples) {
  const page = await browser.newPage();
  const events = [["hello", hello], ...samples.map((sample) => ["sample", sample])];
  const body = events.map(([name, value]) => `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`).join("");
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (!request.url().endsWith("/events")) request.continue();
    else request.respond({ contentType: "text/event-stream", body });
  });
  await page.goto(url);
  await waitForText(page, "#sampled", new RegExp(`^Sample ${samples.at(-1).number},`));
  return page;
}

/** Waits until a function of the page is true, in a tab in the background too. */
export function waitUntil(page, isTrue, values = [], timeout = 30_000) {
  return page.waitForFunction(isTrue, { timeout, polling: 100 }, ...values);
}

/** Waits until the text of an element fulfils a test. */
export function waitForText(page, selector, pattern, timeout = 30_000) {
  const fulfilled = (selector, source) => new RegExp(source).test(document.querySelector(selector)?.textContent ?? "");
  return waitUntil(page, fulfilled, [selector, pattern.source], timeout);
}

/** Presses a button of the page, and gives the token if it is asked for. */
export async function press(page, selector) {
  await page.click(selector);
  await giveToken(page);
}

/** Gives the token if the page asks for it. */
export async function giveToken(page) {
  if (await page.$eval("#token", (dialog) => dialog.open)) {
    await page.type("#token-input", TOKEN);
    await page.click("#token button[type=submit]");
    await waitUntil(page, () => !document.querySelector("#token").open);
  }
}

/** Waits for the next sample. */
export async function nextSample(page) {
  const now = await page.$eval("#sampled", (element) => element.textContent);
  await waitUntil(page, (now) => document.querySelector("#sampled").textContent !== now, [now]);
}

/** Returns what axe finds, a line each. */
export async function violations(page) {
  // By the debugger, so that the page's policy need not allow it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`));
}

/** The selector of the element with the focus, and whether it is seen to have it. */
export function focused(page) {
  return page.evaluate(() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const rectangle = element.getBoundingClientRect();
    return {
      name: (element.textContent || element.id).trim(),
      id: element.id,
      tag: element.tagName,
      isSeen: style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 2 && rectangle.width > 0,
    };
  });
}

/** Moves the focus by the tabulator until an element has it that fulfils a test. */
export async function tabTo(page, fulfils) {
  for (let steps = 0; steps < 100; steps += 1) {
    await page.keyboard.press("Tab");
    const now = await focused(page);
    if (!now.isSeen && now.tag !== "BODY") throw new Error(`the focus is not seen: ${JSON.stringify(now)}`);
    if (fulfils(now)) return now;
  }
  throw new Error("the tabulator does not lead there");
}
