// The live page of the gateway, in a browser.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { TOKEN, focused, giveToken, nextSample, openPage, openPageOf, press, startBrowser, startGateway, startProxy, tabTo, violations, waitForText, waitUntil } from "./harness.js";

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
  await waitForText(page, "#breakers .changes tbody", /\d\d:\d\d:\d\d\.\d{3}closed → open: consecutive failures/);
  await waitForText(page, "#breakers .since", /^(Open|Half-open) for .*consecutive failures\./);
  await waitForText(page, "#troubles", /upstream is (open|half-open), last closed .* ago/);
  await waitUntil(page, () => Number.parseFloat(document.querySelector("#breakers .figures div:last-child dd").textContent) > 0);
  await waitForText(page, "#breakers .figures + .scroll + .outcome", /^\d+ calls refused so far\.$/);
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

onPage("a breaker that opened and closed before the page was opened shows when", {}, async (page) => {
  const text = (selector, of = page) => of.$eval(selector, (element) => element.textContent);
  const openings = async (of = page) => Number(await text("#breakers .figures div:nth-child(3) dd", of));
  await nextSample(page);
  const before = await openings();
  const post = (action) => fetch(`${gateway.url}/control`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` }, body: JSON.stringify({ action, name: "upstream" }) });
  // More than a sample can see, and more than a breaker remembers.
  for (let count = 0; count < 5; count += 1) for (const action of ["trip", "reset"]) assert.equal((await post(action)).status, 200);
  await waitUntil(page, (before) => Number(document.querySelector("#breakers .figures div:nth-child(3) dd").textContent) >= before + 5, [before]);
  assert.equal(await openings(), before + 5);
  await waitForText(page, "#breakers .changes tbody", /open → closed: asked for.*closed → open: asked for/);
  await waitForText(page, "#announcement", /Breaker upstream: opened (once|\d times), now closed\./);
  const later = await openPage(browser, gateway.url, { window: true });
  await nextSample(later.page);
  assert.match(await text("#breakers .changes tbody", later.page), /open → closed: asked for.*closed → open: asked for.*open → closed: asked for/);
  assert.match(await text("#breakers .since", later.page), /^Closed for .*: asked for\.$/);
  assert.equal(await openings(later.page), before + 5);
  const rows = (of) => of.$$eval("#breakers .changes tbody tr", (all) => all.slice(0, 4).map((row) => row.textContent));
  const seconds = (text) => text.split(":").slice(0, 3).reduce((sum, part) => 60 * sum + Number.parseFloat(part), 0);
  const [[first], [second]] = [await rows(page), await rows(later.page)];
  assert.ok(Math.abs(seconds(first) - seconds(second)) < 0.1, `${first}, ${second}: the time of a change is its own`);
  await later.page.close();
});

onPage("10,000 keys stay bounded", {}, async (page) => {
  const elements = () => page.evaluate(() => document.querySelectorAll("*").length);
  await nextSample(page);
  const before = await elements();
  await press(page, "button[data-name=crowd]");
  // A crowd may have come and gone between two samples, so the test waits for its keys.
  const isKnown = () => {
    const [, keys, unit] = /^([\d.]+)( k)? keys known/.exec(document.querySelector("#limits .level label")?.textContent) ?? [0, 0];
    return Number(keys) * (unit ? 1000 : 1) > 8_000;
  };
  await waitUntil(page, isKnown, [], 120_000);
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
  // The first sample may be of a second ago, and other tests changed something since.
  await nextSample(page);
  await nextSample(page);
  await page.$eval("#announcement", (element) => { element.textContent = ""; });
  await nextSample(page);
  await nextSample(page);
  assert.equal(await page.$eval("#announcement", (element) => element.textContent), "");
  const regions = await page.$$eval("[role=status], [role=alert], [aria-live]", (all) => all.map(({ id }) => id));
  assert.deepEqual(regions.sort(), ["announcement", "misplaced", "token-error"]);
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
const SAMPLE = { number: 1, at: 1, wall: 1.7e9, quotas: {}, series: [], breakers: [], logs: [], latencies: [], statuses: [] };

/** What a visitor reads there, or null if it is hidden. */
const seen = (page, selector) => page.$eval(selector, (element) => (element.checkVisibility() ? element.textContent : null));

const LIMIT = [["damper_limit_remaining_tokens", { limit: "all" }, 5], ["damper_limit_burst_tokens", { limit: "all" }, 10]];
const closed = (breaker) => ["closed", "half_open", "open"].map((state) => ["damper_breaker_state", { breaker, state }, state === "closed" ? 1 : 0]);

test("a breaker that opens and closes between two samples shows both, and what is missing", async () => {
  const sample = (number, openings, changes) => ({
    ...SAMPLE, number, at: number, wall: SAMPLE.wall + number, series: closed("one"), breakers: [{ name: "one", breakers: 1, openings, changes }],
  });
  const asked = "asked for";
  const samples = [
    sample(11, 1, [[1, 9, "closed", "open", asked], [2, 8, "open", "closed", asked]]),
    // A tenth of a second, between two samples.
    sample(12, 2, [[1, 10, "closed", "open", asked], [2, 9, "open", "closed", asked], [3, 0.5, "closed", "forced open", asked], [4, 0.4, "forced open", "closed", asked]]),
    // Four changes more than there are words for.
    sample(13, 5, [[9, 0.3, "closed", "open", asked], [10, 0.2, "open", "closed", asked]]),
  ];
  const page = await openPageOf(browser, gateway.url, HELLO, samples);
  const rows = await page.$$eval("#breakers .changes tbody tr", (all) => all.map((row) => row.textContent.replace(/^.*\.(\d{3})/, "$1 ")));
  assert.deepEqual(rows, [
    "800 open → closed: asked for", "700 closed → open: asked for", "4 more changes",
    "600 forced open → closed: asked for", "500 closed → forced open: asked for",
    "000 open → closed: asked for", "000 closed → open: asked for",
  ]);
  // The first of them was over before the page was opened.
  assert.equal(await page.$$eval("#breakers svg .bar-open", (bars) => bars.length), 3);
  assert.equal(await seen(page, "#breakers .since"), "Closed for less than 1 s: asked for.");
  assert.equal(await seen(page, "#troubles"), "one is closed, opened 3 times in 1 s");
  assert.equal(await seen(page, "#breakers .figures + .scroll + .outcome"), "Refusals are not counted: give the page a recorder, and the layer's breaker this name.");
  assert.deepEqual(await violations(page), []);
  await page.close();
});

test("the newest changes of several breakers are shown together", async () => {
  const states = [["closed", 998], ["open", 2]].map(([state, count]) => ["damper_breaker_state", { breaker: "hosts", state }, count]);
  const changes = Array.from({ length: 8 }, () => [1, 0.5, "closed", "open", "slow calls"]);
  const sample = { ...SAMPLE, series: states, breakers: [{ name: "hosts", breakers: 1000, openings: 8, changes }] };
  const page = await openPageOf(browser, gateway.url, HELLO, [sample, { ...sample, number: 2, at: 2 }]);
  assert.equal(await page.$$eval("#breakers .changes tbody tr", (rows) => rows.length), 8);
  assert.equal(await seen(page, "#troubles"), "hosts are 2 open, 998 closed");
  await page.close();
});

test("what is wrong is at the top, with links, and so is what is not known", async () => {
  const refused = (count) => ["damper_limit_refused_total", { limit: "busy" }, count];
  const sample = (number, series) => ({ ...SAMPLE, number, at: number, series });
  const page = await openPageOf(browser, gateway.url, HELLO, [sample(1, [refused(0)]), sample(2, [refused(7)])]);
  assert.equal(await seen(page, "#troubles"), "busy refuses 7 /s");
  assert.equal(await page.title(), "(1) damper");
  assert.equal(await seen(page, "#calm"), null);
  assert.equal(await page.$eval("#troubles a", (link) => document.querySelector(link.getAttribute("href")).textContent), "busy");
  assert.deepEqual(await violations(page), []);
  await page.close();
  for (const [series, text] of [
    [closed("one"), "Every breaker is closed. Nothing is refused."], [[refused(0)], "Nothing is refused."],
    [[...LIMIT, ...closed("one")], "Every breaker is closed. The refusals of one limit are not counted."],
  ]) {
    const calm = await openPageOf(browser, gateway.url, HELLO, [sample(1, series), sample(2, series)]);
    assert.equal(await seen(calm, "#calm"), text);
    assert.equal(await seen(calm, "#repeated"), null);
    await calm.close();
  }
  const many = Array.from({ length: 20 }, (_, limit) => ["damper_limit_remaining_tokens", { limit: `limit ${limit}` }, 0]);
  const twice = await openPageOf(browser, gateway.url, HELLO, [sample(1, [...many, many[3]])]);
  assert.equal(await twice.$$eval("#troubles li", (all) => all.length), 6);
  assert.equal(await twice.$eval("#troubles li:last-child", (item) => item.textContent), "limit 5 has no token left; and 14 more");
  assert.equal(await seen(twice, "#repeated"), 'Two sources are registered as "limit 3", and the page shows only one of them.');
  await twice.close();
});

test("names of any kind fit, at 360 pixels too", async () => {
  const names = ["", "<script>alert(1)</script>", "x".repeat(300), "a very long name ".repeat(30), "限流器 🚦 مرحبا"];
  const series = names.flatMap((name) => [["damper_limit_remaining_tokens", { limit: name }, 5], ["damper_limit_burst_tokens", { limit: name }, 10], ...closed(name)]);
  const page = await openPageOf(browser, gateway.url, { ...HELLO, changeable: true, limits: names, breakers: names }, [{ ...SAMPLE, series }]);
  await page.setViewport({ width: 360, height: 900 });
  assert.equal(await page.evaluate(() => document.scrollingElement.scrollWidth), 360);
  assert.deepEqual(await page.$$eval("#limits h3", (all) => all.map(({ textContent }) => textContent)), ["(no name)", ...names.slice(1)]);
  assert.ok(await page.$$eval("h3", (all) => all.every((title) => title.getBoundingClientRect().height < 100)));
  assert.deepEqual(await violations(page), []);
  await page.close();
});

/** Runs a test with a page behind a proxy, whose stream need not begin. */
function behindProxy(name, from, to, options, run) {
  test(name, async () => {
    const proxy = await startProxy(gateway.listen, from, to, options);
    const page = await browser.newPage();
    try {
      await page.goto(proxy.url);
      await run(page, proxy.url);
    } finally {
      await page.close();
      proxy.stop();
    }
  });
}

for (const slash of ["", "/"]) {
  behindProxy(`the page works under another path of a proxy${slash && ", with a slash at its end"}`, `/ops/status${slash}`, `/damper${slash}`, {}, async (page) => {
    await page.waitForSelector("#connection[data-state=live]", { timeout: 30_000 });
    await press(page, "button[data-name=heal]");
    await waitForText(page, "#button-outcome", /done/);
    assert.equal(await page.$eval("h1", (title) => getComputedStyle(title).fontSize), "20px", "it has its styles");
  });
}

behindProxy("a control says which host a proxy took away", "/damper", "/damper", { rewritesHost: true }, async (page) => {
  await page.waitForSelector("#connection[data-state=live]", { timeout: 30_000 });
  await page.click("button[data-name=heal]");
  await page.type("#token-input", TOKEN);
  await page.click("#token button[type=submit]");
  await waitForText(page, "#token-error", /a proxy between them has to pass `Host` on as it is/);
});

behindProxy("a page without its files says which are missing", "/ops", "/damper", { isExact: true }, async (page, url) => {
  await waitForText(page, "#misplaced:not([hidden])", new RegExp(`does not load from ${url}/`));
});

behindProxy("a page says that a proxy may hold its stream back", "/damper", "/damper", { buffers: true }, async (page) => {
  await waitForText(page, "#connection-text", /no event comes: does a proxy hold the stream back\?/);
});

test("a page says why its stream is refused", async () => {
  for (const [status, text] of [[503, /too many pages are open/], [403, /the server refuses with status 403/]]) {
    const page = await browser.newPage();
    await page.setRequestInterception(true);
    page.on("request", (request) => {
      if (request.url().endsWith("/events")) request.respond({ status }); else request.continue();
    });
    await page.goto(gateway.url);
    await waitForText(page, "#connection-text", text);
    await page.close();
  }
});

test("a page of nothing says so, and how controls come", async () => {
  const page = await openPageOf(browser, gateway.url, HELLO, [SAMPLE]);
  assert.match(await seen(page, "#empty"), /^Nothing is registered: /);
  assert.match(await seen(page, "#tokenless"), /^Controls need a token/);
  assert.equal(await seen(page, "#all"), null);
  assert.deepEqual(await violations(page), []);
  await page.close();
});

test("a limit without counts says why it has no rates", async () => {
  const samples = [1, 2, 3].map((number) => ({ ...SAMPLE, number, at: number, series: LIMIT }));
  for (const [recorder, why] of [[false, /^No counts: give the page a recorder or a log/], [true, /^No counts yet: /]]) {
    const page = await openPageOf(browser, gateway.url, { ...HELLO, recorder }, samples);
    assert.match(await seen(page, "#limits .level + .outcome"), why);
    assert.equal(await seen(page, "#limits .figures"), null);
    assert.equal(await seen(page, "#empty"), null);
    await page.close();
  }
});

test("a tree shows the keys of each level, and which level and dimension refuse", async () => {
  const refused = (plan, value) => ["damper_limit_refused_total", { limit: "model", level: "user", dimension: "tokens", plan }, value];
  const series = [
    ["damper_limit_keys", { limit: "model", level: "user" }, 6],
    ["damper_limit_keys_capacity", { limit: "model", level: "user" }, 100],
    ["damper_limit_keys", { limit: "model", level: "organisation" }, 2],
    ["damper_limit_keys_capacity", { limit: "model", level: "organisation" }, 100],
    refused("free", 3),
    refused("pro", 4),
  ];
  const samples = [1, 2].map((number) => ({ ...SAMPLE, number, at: number, series }));
  const page = await openPageOf(browser, gateway.url, { ...HELLO, recorder: true }, samples);
  const levels = await page.$$eval("#limits .level label", (labels) => labels.map((label) => label.textContent));
  assert.deepEqual(levels, ["level user: 6 keys known", "level organisation: 2 keys known", "tokens of this user: 7 refused so far"]);
  await page.close();
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
