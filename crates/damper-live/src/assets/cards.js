// A card for each limit, breaker and so on.

import { History, Lines, States, html, say, short, svg, swatch, time } from "./charts.js";
import { Changes, STATES, clockTime, span } from "./changes.js";
import { change } from "./controls.js";

let ids = 0;

/** A number with its unit under a name, as a term and its description. */
class Figures {
  constructor(names, lines = true) {
    this.values = names.map(() => html("dd"));
    const terms = names.map((name, index) => html("div", {}, html("dt", {}, ...(lines ? [swatch(index)] : []), name), this.values[index]));
    this.element = html("dl", { class: "figures" }, ...terms);
  }

  /** Shows the values; one that is missing is hidden. */
  show(texts) {
    texts.forEach((text, index) => {
      this.values[index].parentElement.hidden = text == null;
      say(this.values[index], text ?? "");
    });
  }
}

class Card {
  constructor(name) {
    this.title = html("h3", { id: `card-${ids += 1}`, title: name }, name || "(no name)");
    this.head = html("div", { class: "head" }, this.title);
    this.element = html("article", { class: "card", "aria-labelledby": this.title.id }, this.head);
    /** What is wrong now, as the rest of a sentence that begins with the name. */
    this.trouble = null;
  }

  add(...elements) {
    this.element.append(...elements);
  }

  button(label, command, outcome, className = "") {
    const button = html("button", { type: "button", class: className, "aria-describedby": this.title.id }, label);
    button.addEventListener("click", () => change(command, outcome));
    return button;
  }
}

const perSecond = (rate) => (rate == null ? "–" : `${short(rate)} /s`);

/** What decides for a limit on Redis, and the tokens that this process leased. */
function redis({ policy, leased }) {
  const decides = policy == null ? "Redis decides." : `Redis does not answer, so the policy in force decides: ${policy.replace("_", " ")}.`;
  return leased > 0 ? `${decides} ${short(leased)} leased tokens left.` : decides;
}

/** A limit: its rates, its level, and its quota. */
export class LimitCard extends Card {
  constructor(name, { interval, quotas, recorder }) {
    super(name);
    this.uncounted = recorder ? "No counts yet: no layer of this name has counted a request." : "No counts: give the page a recorder or a log of decisions.";
    this.history = new History(["allowed", "refused"]);
    this.figures = new Figures(["allowed", "refused"]);
    this.lines = new Lines(this.history, `Requests a second, ${name}`, (rate) => short(rate), interval);
    this.level = html("div", { class: "level" });
    this.levels = new Map();
    this.note = html("p", { class: "outcome" });
    this.redis = html("p", { class: "outcome redis" });
    this.add(this.figures.element, this.lines.element, this.level, this.note, this.redis);
    if (quotas?.includes(name)) this.addQuota(name);
    else { this.quota = html("p", { class: "outcome" }); this.add(this.quota); }
  }

  addQuota(name) {
    const id = `quota-${ids += 1}`;
    this.input = html("input", { id, autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-outcome` });
    const outcome = html("p", { class: "outcome", id: `${id}-outcome` });
    const form = html("form", { class: "quota" },
      html("label", { for: id }, "Quota", html("span", { class: "unseen" }, ` of ${name}`), ", such as 100/s burst 200"),
      html("div", { class: "row" }, this.input, html("button", { type: "submit" }, "Change")), outcome);
    this.input.addEventListener("input", () => { this.edited = true; });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const changed = await change({ action: "quota", name, quota: this.input.value }, outcome);
      this.input.setAttribute("aria-invalid", outcome.classList.contains("error"));
      // From now on it follows the quota in force again.
      if (changed) this.edited = false;
    });
    this.add(form);
  }

  update(limit, at) {
    const { allowed = null, refused = null } = limit;
    this.counted ||= limit.counted ?? false;
    this.figures.element.hidden = this.lines.element.hidden = !this.counted;
    this.history.add(at, [allowed, refused]);
    this.figures.show([perSecond(allowed), perSecond(refused)]);
    this.lines.draw();
    for (const level of limit.levels) this.show(level);
    this.trouble = refused > 0 ? `refuses ${perSecond(refused)}` : null;
    // Without counts, an empty level is all that shows a refusal.
    if (!this.counted && limit.isEmpty) this.trouble = "has no token left";
    if (limit.redis?.policy != null) this.trouble = `is decided by its policy: Redis does not answer`;
    const estimated = limit.estimated ? "Rates are estimated: the log is too small for all decisions of a sample." : "";
    const soFar = limit.refusedSoFar == null ? "" : `So far ${short(limit.allowedSoFar ?? 0)} allowed, ${short(limit.refusedSoFar)} refused.`;
    say(this.note, this.counted ? `${soFar} ${estimated}`.trim() : this.uncounted);
    say(this.redis, limit.redis ? redis(limit.redis) : "");
    if (this.input) {
      if (!this.edited && limit.quota != null && this.input !== document.activeElement) this.input.value = limit.quota;
    } else say(this.quota, limit.rate ?? "");
  }

  show({ name, text, value, most }) {
    let level = this.levels.get(name);
    if (!level) {
      const id = `level-${ids += 1}`;
      level = { label: html("label", { for: id }), meter: html("meter", { id, min: 0 }) };
      this.levels.set(name, level);
      this.level.append(level.label, level.meter);
    }
    say(level.label, text);
    level.meter.hidden = !(most > 0);
    if (most > 0) { level.meter.max = most; level.meter.value = Math.min(value, most); level.meter.textContent = text; }
  }
}

function shape(state) {
  const icon = svg("svg", { viewBox: "0 0 18 18", "aria-hidden": "true" });
  const circle = (attributes = {}) => svg("circle", { cx: 9, cy: 9, r: 7, ...attributes });
  if (state === "open" || state === "forced_open") icon.append(svg("path", { d: "M6 2h6l4 4v6l-4 4H6l-4-4V6z" }), svg("path", { d: "M6.5 6.5l5 5m0-5l-5 5" }));
  else if (state === "half_open" || state === "returning") icon.append(circle(), svg("path", { class: "full", d: "M9 2a7 7 0 0 1 0 14z" }));
  else if (state === "disabled") icon.append(circle(), svg("path", { d: "M4 14L14 4" }));
  else icon.append(circle(), svg("path", { d: "M5.5 9.5l2.5 2.5l4.5-5.5" }));
  return icon;
}

/** How many changes are read at once; a reader scrolls to the others. */
const SHOWN_CHANGES = 20;

/** A table of changes of the state. */
class ChangeTable {
  constructor(name) {
    this.rows = html("tbody");
    const heads = ["Time", "Change"].map((head) => html("th", { scope: "col" }, head));
    const table = html("table", { class: "changes" }, html("caption", {}, "Changes, newest first"), html("thead", {}, html("tr", {}, ...heads)), this.rows);
    this.element = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Changes of ${name}` }, table);
    this.element.hidden = true;
  }

  show(changes) {
    const { list, single } = changes;
    const key = list.map(({ generation, wall }) => `${generation} ${wall.toFixed(0)}`).join();
    this.element.hidden = list.length === 0;
    // Written anew only when there is another change, so that a selection stays.
    if (key === this.key) return;
    this.key = key;
    const rows = [];
    for (let index = list.length - 1; index >= 0 && rows.length < SHOWN_CHANGES; index -= 1) {
      const { wall, from, to, cause } = list[index];
      rows.push(html("tr", {}, html("th", { scope: "row" }, clockTime(wall)), html("td", {}, `${STATES[from]} → ${STATES[to]}: `, html("span", { class: "cause" }, cause))));
      const missing = single ? changes.missing(index) : 0;
      if (missing > 0) rows.push(html("tr", {}, html("td", { colspan: 2 }, missing === 1 ? "one more change" : `${short(missing)} more changes`)));
    }
    this.rows.replaceChildren(...rows);
  }
}

/** A breaker: its state now and over time, its changes, its failures, and its switches. */
export class BreakerCard extends Card {
  constructor(name, { interval, breakers, recorder }) {
    super(name);
    this.uncounted = `Refusals are not counted: give ${recorder ? "" : "the page a recorder, and "}the layer's breaker this name.`;
    this.interval = interval;
    this.history = new History(["state"]);
    this.changes = new Changes();
    this.badge = html("span", { class: "state" });
    this.head.append(this.badge);
    this.since = html("p", { class: "since" });
    this.states = new States(this.history, `State of ${name}`, this.changes, interval);
    this.table = new ChangeTable(name);
    this.figures = new Figures(["failures since a success", "failures in the window", "times opened", "refused"], false);
    this.note = html("p", { class: "outcome" });
    this.add(this.since, this.states.element, this.figures.element, this.table.element, this.note);
    if (breakers?.includes(name)) {
      const outcome = html("p", { class: "outcome" });
      const switches = html("div", { class: "row" },
        this.button("Trip", { action: "trip", name }, outcome), this.button("Reset", { action: "reset", name }, outcome));
      this.add(switches, outcome);
    }
  }

  /** Returns a sentence about the state if it has changed since the sample before. */
  update(breaker, at, wall) {
    const { state, counts } = breaker;
    const before = this.badge.dataset.state;
    if (before !== state) {
      this.badge.dataset.state = state;
      this.badge.replaceChildren(shape(state), html("span"));
    }
    say(this.badge.lastChild, counts ?? STATES[state] ?? "none");
    const opened = breaker.record ? this.changes.take(breaker.record, at, wall) : null;
    this.history.add(at, [state]);
    this.states.draw();
    this.table.show(this.changes);
    say(this.since, this.sinceWhen(breaker, at));
    const window = breaker.calls > 0 ? `${short(breaker.failures)} of ${short(breaker.calls)}` : null;
    const times = breaker.record ? `${short(breaker.record.openings)}` : null;
    this.figures.show([short(breaker.consecutive), window, times, breaker.refused == null ? null : perSecond(breaker.refused)]);
    const isUncounted = breaker.refusedSoFar == null && breaker.record?.openings > 0;
    say(this.note, isUncounted ? this.uncounted : breaker.refusedSoFar == null ? "" : `${short(breaker.refusedSoFar)} calls refused so far.`);
    this.trouble = state === "closed" && !opened ? null : this.troubleOf(state, counts, opened, at);
    if (before == null) return null;
    const flapped = opened > (state === "open" || state === "forced_open" ? 1 : 0) || (opened > 0 && before === state);
    if (flapped) return `opened ${opened === 1 ? "once" : `${opened} times`}, now ${counts ?? STATES[state]}`;
    return before !== state ? STATES[state] : null;
  }

  /** For how long the breaker has been what it is, and why. */
  sinceWhen({ state, record }, at) {
    const last = this.changes.last();
    if (!record || record.breakers !== 1) return "";
    if (!last) return "No change since the start.";
    if (last.to !== state) return state === "half_open" ? "The cooldown is over. The next call is a probe." : "";
    const first = this.changes.leftClosed;
    const name = STATES[state][0].toUpperCase() + STATES[state].slice(1);
    const since = `${name} for ${span(at - last.at)}: ${last.cause}.`;
    return state === "closed" || !first || first.generation === last.generation ? since : `${since} Last closed ${span(at - first.at)} ago: ${first.cause}.`;
  }

  troubleOf(state, counts, opened, at) {
    const last = this.changes.leftClosed;
    const since = state !== "closed" && last && !counts ? `, last closed ${span(at - last.at)} ago` : "";
    const flaps = opened > 1 ? `, opened ${short(opened)} times in ${short(this.interval)} s` : "";
    return counts ? `are ${counts}${flaps}` : `is ${STATES[state] ?? state}${since}${flaps}`;
  }
}

/** Latencies: three percentiles. */
export class LatencyCard extends Card {
  constructor(name, { interval }) {
    super(name);
    const names = ["median", "p90", "p99"];
    this.history = new History(names);
    this.figures = new Figures(names);
    this.calls = html("p", { class: "outcome" });
    this.lines = new Lines(this.history, `Latencies of ${name}`, time, interval);
    this.add(this.figures.element, this.lines.element, this.calls);
    this.interval = interval;
  }

  update({ calls, p50 = null, p90 = null, p99 = null, longest }, at) {
    this.history.add(at, [p50, p90, p99]);
    this.figures.show([time(p50), time(p90), time(p99)]);
    this.lines.draw();
    say(this.calls, calls ? `${short(calls / this.interval)} responses a second, the longest after ${time(longest)}` : "No response in the last sample.");
  }
}

/** A concurrency limit: the calls in flight, and how many there may be. */
export class ConcurrencyCard extends Card {
  constructor(name, { interval }) {
    super(name);
    const names = ["in flight", "limit", "queued"];
    this.history = new History(names);
    this.figures = new Figures(names);
    this.lines = new Lines(this.history, `Calls in flight, ${name}`, short, interval);
    this.rest = html("p", { class: "outcome" });
    this.add(this.figures.element, this.lines.element, this.rest);
  }

  update({ inFlight = null, limit = null, queued = null, refused = null, refusedSoFar = 0, keys }, at) {
    this.history.add(at, [inFlight, limit, queued]);
    this.figures.show([inFlight, limit, queued].map(short));
    this.lines.draw();
    this.trouble = refused > 0 ? `refuses ${perSecond(refused)}` : null;
    const parts = [refused == null ? "" : `${perSecond(refused)} refused, ${short(refusedSoFar)} so far`, keys == null ? "" : `${short(keys)} keys`];
    say(this.rest, parts.filter(Boolean).join(", "));
  }
}

/** The hottest keys of a log. */
export class KeysCard extends Card {
  constructor(name) {
    super(name);
    this.rows = html("tbody");
    const heads = ["Key, hashed", "Calls /s", "Refused /s"].map((head) => html("th", { scope: "col" }, head));
    const caption = html("caption", {}, "Over the last seconds, the busiest first");
    this.add(html("table", {}, caption, html("thead", {}, html("tr", {}, ...heads)), this.rows));
  }

  update({ hottest }) {
    // Rows are kept, so that nothing jumps.
    while (this.rows.children.length > Math.max(hottest.length, 1)) this.rows.lastChild.remove();
    if (hottest.length === 0) {
      this.rows.replaceChildren(html("tr", {}, html("td", { colspan: 3 }, "No calls.")));
      return;
    }
    hottest.forEach(({ key, calls, refused }, index) => {
      let row = this.rows.children[index];
      if (row?.children.length !== 3) {
        const fresh = html("tr", {}, html("th", { scope: "row", class: "hash" }), html("td"), html("td"));
        if (row) row.replaceWith(fresh); else this.rows.append(fresh);
        row = fresh;
      }
      [key, short(calls), short(refused)].forEach((text, cell) => say(row.children[cell], text));
    });
  }
}

/** A retry budget: how many retries are left. */
export class BudgetCard extends Card {
  constructor(name, { interval }) {
    super(name);
    this.history = new History(["retries left"]);
    this.figures = new Figures(["retries left"]);
    this.lines = new Lines(this.history, `Retries left, ${name}`, short, interval);
    this.add(this.figures.element, this.lines.element);
  }

  update({ left }, at) {
    this.history.add(at, [left]);
    this.figures.show([short(left)]);
    this.trouble = left < 1 ? "has no retries left" : null;
    this.lines.draw();
  }
}

/** A candidate beside what is in force: the refusals of both. */
export class ShadowCard extends Card {
  constructor(name, { interval }) {
    super(name);
    const names = ["both", "candidate only", "in force only"];
    this.history = new History(names);
    this.figures = new Figures(names);
    this.lines = new Lines(this.history, `Refusals a second, ${name}`, short, interval);
    this.totals = html("p", { class: "outcome" });
    this.add(this.figures.element, this.lines.element, this.totals);
  }

  update({ rates, totals }, at) {
    this.history.add(at, rates);
    this.figures.show(rates.map(perSecond));
    this.lines.draw();
    say(this.totals, `So far: ${totals.map(short).join(", ")}`);
  }
}
