// The live page of the gateway, in a browser.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { TOKEN, focused, giveToken, nextSample, openPage, openPageOf, press, startBrowser, startGateway, tabTo, violations, waitForText, waitUntil } from "./harness.js";

let gateway, browser;

before(async () => {
  gateway = await startGateway();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** Runs a test on a page of its own, on which nothing may go wrong. */
function onPage(name, options, run) {
  test(name, async () => {
    const { page, faults } = await openPage(browser, gateway.url, options);
    try {
      await run(page);
      assert.deepEqual(faults.filter((fault) => !run.expected?.test(fault)), []);
    } finally {
      await page.close();
    }
  });
}

/** Browsers log each refused request by themselves. */
const refused = (run, status) => Object.assign(run, { expected: new RegExp(`status of ${status}`) });

const BREAKER = "#breakers .state";
const QUOTA = "#limits .quota input";
const refusals = (page) => page.$eval("#limits .figures div:nth-child(2) dd", (element) => Number.parseFloat(element.textContent) || 0);

/** How high the line of the refusals reaches, from 0 to 100. */
const height = (page) => page.$eval("#limits svg .line.s1", (line) => {
  const heights = [...(line.getAttribute("d") ?? "").matchAll(/[ML][\d.-]+ ([\d.-]+)/g)].map(([, y]) => 100 - Number(y));
  return Math.max(0, ...heights);
});

onPage("the token is asked for, a wrong one is refused, and nothing changes without it", {}, refused(async (page) => {
  const breaker = await page.$eval(BREAKER, (element) => element.textContent);
  await page.click("#breakers button");
  assert.ok(await page.$eval("#token", (dialog) => dialog.open));
  await page.type("#token-input", "not the token at all");
  await page.click("#token button[type=submit]");
  await waitForText(page, "#token-error", /That is not the token/);
  assert.equal(await page.$eval("#token-input", (input) => input.getAttribute("aria-invalid")), "true");
  await page.keyboard.press("Escape");
  await nextSample(page);
  assert.ok(!(await page.$eval("#token", (dialog) => dialog.open)));
  assert.equal(await page.$eval(BREAKER, (element) => element.textContent), breaker);
  // Without the page, too.
  const post = (headers) => fetch(`${gateway.url}/control`, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: '{"action":"trip","name":"upstream"}' });
  assert.equal((await post({})).status, 401);
  assert.equal((await post({ Authorization: `Bearer ${TOKEN}x` })).status, 401);
  assert.equal((await post({ Authorization: `Bearer ${TOKEN}`, Origin: "http://elsewhere.example" })).status, 403);
  assert.equal((await fetch(gateway.url, { headers: { "X-Forwarded-For": "192.0.2.1" } })).status, 403);
}, 401));

onPage("the flood button makes the refusal line rise", {}, async (page) => {
  await nextSample(page);
  assert.equal(await refusals(page), 0);
  assert.ok(await height(page) < 3);
  await press(page, "button[data-name=flood]");
  await waitUntil(page, () => Number.parseFloat(document.querySelector("#limits .figures div:nth-child(2) dd").textContent) > 50);
  await nextSample(page);
  assert.ok(await height(page) > 30, `${await height(page)}`);
  await waitForText(page, "#keys tbody", /[0-9a-f]{12}/);
  await waitForText(page, "#latencies dd", /(µs|ms)/);
  await waitForText(page, "#statuses", /a flood/);
});

onPage("breaking the upstream opens the breaker, and healing closes it", {}, async (page) => {
  await press(page, "button[data-name=break]");
  await waitForText(page, BREAKER, /^open$/, 30_000);
  assert.equal(await page.$eval(BREAKER, (element) => element.dataset.state), "open");
  await page.waitForSelector("#breakers svg .bar-open", { timeout: 30_000 });
  await page.click("button[data-name=heal]");
  await waitForText(page, BREAKER, /^closed$/, 30_000);
  await waitForText(page, "#statuses", /answers/);
});

onPage("a changed quota shows on all pages, and a wrong one says why not", {}, refused(async (page) => {
  const other = await openPage(browser, gateway.url, { window: true });
  await page.bringToFront();
  await page.click(QUOTA, { count: 3 });
  await page.type(QUOTA, "lots");
  await press(page, "#limits .quota button");
  await waitForText(page, "#limits .quota .error", /"lots" is no quota/);
  assert.equal(await page.$eval(QUOTA, (input) => input.getAttribute("aria-invalid")), "true");
  await page.click(QUOTA, { count: 3 });
  await page.type(QUOTA, "40/s burst 80");
  await page.click("#limits .quota button");
  await waitForText(page, "#limits .quota .outcome", /the quota is 40\/s burst 80/);
  await waitUntil(other.page, (quota) => document.querySelector(quota).value === "40/s burst 80", [QUOTA]);
  await other.page.close();
  await page.click(QUOTA, { count: 3 });
  await page.type(QUOTA, "50/s burst 100");
  await page.click("#limits .quota button");
  await waitForText(page, "#limits .quota .outcome", /50\/s burst 100/);
}, 422));

onPage("a breaker is tripped and reset", {}, async (page) => {
  await press(page, "#breakers .row button:nth-child(1)");
  await waitForText(page, BREAKER, /^(open|half-open)$/);
  await page.click("#breakers .row button:nth-child(2)");
  await waitForText(page, BREAKER, /^closed$/);
});

onPage("10,000 keys stay bounded", {}, async (page) => {
  const elements = () => page.evaluate(() => document.querySelectorAll("*").length);
  await nextSample(page);
  const before = await elements();
  await press(page, "button[data-name=crowd]");
  await waitForText(page, "#statuses", /a crowd/);
  await waitUntil(page, () => !/a crowd/.test(document.querySelector("#statuses").textContent), [], 120_000);
  await nextSample(page);
  const known = await page.$eval("#limits .level label", (label) => label.textContent);
  const [, keys, unit] = /^([\d.]+)( k)? keys known/.exec(known) ?? assert.fail(known);
  assert.ok(Number(keys) * (unit ? 1000 : 1) > 8_000, known);
  assert.equal(await page.$$eval("#keys tbody tr", (rows) => rows.length), 10);
  // Ten rows of three cells, and a point of each chart a second, which are parts of lines.
  assert.ok(await elements() < before + 100, `${before} elements, then ${await elements()}`);
  const response = await fetch(`${gateway.url}/events`);
  let size = 0;
  for await (const part of response.body) {
    const text = new TextDecoder().decode(part);
    if (text.startsWith("event: sample")) { size = text.length; break; }
  }
  assert.ok(size > 1_000 && size < 16_000, `a sample of ${size} bytes`);
});

for (const scheme of ["light", "dark"]) {
  for (const width of [360, 1280]) {
    onPage(`axe finds nothing: ${scheme}, ${width} pixels wide`, { width, scheme }, async (page) => {
      await nextSample(page);
      await page.$$eval("details", (all) => all.forEach((details) => { details.open = true; }));
      await nextSample(page);
      assert.deepEqual(await violations(page), []);
      assert.equal(await page.evaluate(() => document.scrollingElement.scrollWidth), width, "nothing is wider than the window");
      await page.click("#breakers button");
      assert.deepEqual(await violations(page), []);
    });
  }
}

onPage("states and errors have contrast, too", { scheme: "dark" }, async (page) => {
  for (const scheme of ["light", "dark"]) {
    // Without motion, or axe sees colours that are on their way.
    await page.emulateMediaFeatures([
      { name: "prefers-color-scheme", value: scheme }, { name: "prefers-reduced-motion", value: "reduce" },
    ]);
    for (const state of ["open", "half_open", "closed", "disabled"]) {
      await page.$eval(BREAKER, (badge, state) => { badge.dataset.state = state; }, state);
      await page.$eval("#connection", (connection) => { connection.dataset.state = "lost"; });
      await page.$eval("#button-outcome", (outcome) => { outcome.textContent = "an error"; outcome.classList.add("error"); });
      assert.deepEqual(await violations(page), [], `${scheme}, ${state}`);
    }
  }
});

onPage("the keyboard alone can do everything, and the focus is seen", { width: 360 }, async (page) => {
  const first = await tabTo(page, () => true);
  assert.equal(first.name, "Skip to the values");
  await page.keyboard.press("Enter");
  assert.equal((await focused(page)).id, "main");
  await tabTo(page, ({ name }) => name === "Heal the upstream");
  await page.keyboard.press("Space");
  assert.equal((await focused(page)).id, "token-input", "the dialog takes the focus");
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await waitForText(page, "#button-outcome", /Heal the upstream: done/);
  assert.equal((await focused(page)).name, "Heal the upstream", "the focus returns");
  await tabTo(page, ({ name }) => name === "Values as a table");
  await page.keyboard.press("Enter");
  await waitForText(page, "#limits details tbody", /\d/);
  await tabTo(page, ({ tag }) => tag === "INPUT");
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.keyboard.type("50/s burst 100");
  await page.keyboard.press("Enter");
  await waitForText(page, "#limits .quota .outcome", /the quota is 50\/s burst 100/);
  await tabTo(page, ({ name }) => name === "Trip");
  await page.keyboard.press("Enter");
  await waitForText(page, "#breakers .row + .outcome", /tripped/);
  await tabTo(page, ({ name }) => name === "Reset");
  await page.keyboard.press("Enter");
  await waitForText(page, "#breakers .row + .outcome", /reset/);
  await tabTo(page, ({ name }) => name === "Forget the token");
  await page.keyboard.press("Enter");
  assert.ok(await page.$eval("#forget", (button) => button.hidden));
});

onPage("numbers are not announced, changes are", {}, async (page) => {
  await nextSample(page);
  await nextSample(page);
  assert.equal(await page.$eval("#announcement", (element) => element.textContent), "");
  const regions = await page.$$eval("[role=status], [role=alert], [aria-live]", (all) => all.map(({ id }) => id));
  assert.deepEqual(regions.sort(), ["announcement", "token-error"]);
  await press(page, "#breakers .row button:nth-child(1)");
  await waitForText(page, "#announcement", /upstream: tripped|Breaker upstream: open/);
  await page.click("#breakers .row button:nth-child(2)");
  await waitForText(page, "#announcement", /upstream: reset|Breaker upstream: closed/);
});

test("a page that lost its gateway says so, and comes back by itself", async () => {
  const first = await startGateway();
  const { page } = await openPage(browser, first.url);
  await first.stop();
  await waitForText(page, "#connection-text", /disconnected/);
  await waitForText(page, "#announcement", /Disconnected/);
  const second = await startGateway(first.listen);
  await page.waitForSelector("#connection[data-state=live]", { timeout: 30_000 });
  await waitForText(page, "#announcement", /Connected again/);
  await page.close();
  await second.stop();
});

test("a hidden page closes its stream, and opens another when it is shown", async () => {
  const { page } = await openPage(browser, gateway.url);
  const connection = () => page.$eval("#connection", (element) => element.dataset.state);
  const cover = await browser.newPage();
  await cover.bringToFront();
  await waitForText(page, "#connection-text", /paused while hidden/);
  // More tabs than a browser has connections to one host. Each of them is live when it is shown.
  const tabs = [];
  for (let count = 0; count < 7; count += 1) tabs.push((await openPage(browser, gateway.url)).page);
  assert.equal(await connection(), "paused");
  assert.equal(await page.evaluate(async (path) => (await fetch(path)).status, "/damper/icon.svg"), 200);
  await page.bringToFront();
  await waitUntil(page, () => document.querySelector("#connection").dataset.state === "live");
  await nextSample(page);
  await Promise.all([cover, page, ...tabs].map((tab) => tab.close()));
});

const HELLO = { title: "damper", interval: 1, changeable: false, recorder: false, limits: [], breakers: [], controls: [] };
const SAMPLE = { number: 1, at: 1, quotas: {}, series: [], logs: [], latencies: [], statuses: [] };

/** What a visitor reads there, or null if it is hidden. */
const seen = (page, selector) => page.$eval(selector, (element) => (element.checkVisibility() ? element.textContent : null));

test("a page of nothing says so, and how controls come", async () => {
  const page = await openPageOf(browser, gateway.url, HELLO, [SAMPLE]);
  assert.match(await seen(page, "#empty"), /^Nothing is registered: /);
  assert.match(await seen(page, "#tokenless"), /^Controls need a token/);
  assert.equal(await seen(page, "#all"), null);
  assert.deepEqual(await violations(page), []);
  await page.close();
});

test("a limit without counts says why it has no rates", async () => {
  const series = [["damper_limit_remaining_tokens", { limit: "all" }, 5], ["damper_limit_burst_tokens", { limit: "all" }, 10]];
  const samples = [1, 2, 3].map((number) => ({ ...SAMPLE, number, at: number, series }));
  for (const [recorder, why] of [[false, /^No counts: give the page a recorder or a log/], [true, /^No counts yet: /]]) {
    const page = await openPageOf(browser, gateway.url, { ...HELLO, recorder }, samples);
    assert.match(await seen(page, "#limits .level + .outcome"), why);
    assert.equal(await seen(page, "#limits .figures"), null);
    assert.equal(await seen(page, "#empty"), null);
    await page.close();
  }
});

test("a limit on Redis shows its rates and the policy in force", async () => {
  const sample = (number, policy) => {
    const limit = "all", redis = (metric, value, labels = {}) => [`damper_redis_${metric}`, { limit, ...labels }, value * number];
    const decisions = (by, verdict, value) => redis("decisions_total", value, { by, verdict });
    const series = [
      ["damper_limit_tokens_per_second", { limit }, 50], ["damper_limit_burst_tokens", { limit }, 100], ["damper_redis_leased_tokens", { limit }, 7],
      decisions("server", "allowed", 10), decisions("policy", "allowed", 1), redis("lease_tokens_total", 30),
      decisions("server", "denied", 4), decisions("policy", "denied", 2), decisions("process", "denied", 1),
      ...["local_share", "open", "closed"].map((each) => ["damper_redis_policy_in_force", { limit, policy: each }, each === policy ? 1 : 0]),
    ];
    return { ...SAMPLE, number, at: number, series };
  };
  for (const [policy, line] of [[null, "Redis decides. 7 leased tokens left."], ["local_share", "Redis does not answer, so the policy in force decides: local share. 7 leased tokens left."]]) {
    const page = await openPageOf(browser, gateway.url, HELLO, [sample(1, policy), sample(2, policy)]);
    assert.deepEqual(await page.$$eval("#limits .figures dd", (all) => all.map(({ textContent }) => textContent)), ["41 /s", "7 /s"]);
    assert.equal(await seen(page, "#limits .redis"), line);
    await page.close();
  }
});

if (process.env.SCREENSHOTS) {
  test("screenshots", async () => {
    const pages = [];
    for (const [name, options] of [["light", {}], ["dark", { scheme: "dark" }], ["narrow", { width: 360, height: 1240 }]]) {
      pages.push([name, (await openPage(browser, gateway.url, { height: 1240, window: true, ...options })).page]);
    }
    const [, page] = pages[0];
    await page.bringToFront();
    const wait = (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1000); });
    await press(page, "button[data-name=flood]");
    await wait(26);
    await page.click("button[data-name=break]");
    await wait(14);
    await page.click("button[data-name=heal]");
    await wait(8);
    await page.click("button[data-name=slow]");
    await wait(12);
    await page.click("button[data-name=flood]");
    await wait(12);
    for (const [name, shown] of pages) {
      await shown.bringToFront();
      await nextSample(shown);
      await shown.screenshot({ path: join(process.env.SCREENSHOTS, `live-${name}.png`) });
    }
    await page.bringToFront();
    await page.click("button[data-name=heal]");
    await giveToken(page);
    await Promise.all(pages.map(([, shown]) => shown.close()));
  });
}
