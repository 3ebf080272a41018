// A card for each limit, breaker and so on.

import { History, Lines, States, html, say, short, svg, swatch, time } from "./charts.js";
import { change } from "./controls.js";

/** What a breaker is in, and the shape that says so. */
const STATES = { closed: "closed", half_open: "half-open", open: "open", forced_open: "forced open", forced_closed: "forced closed", disabled: "disabled" };

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
    this.title = html("h3", { id: `card-${ids += 1}` }, name);
    this.head = html("div", { class: "head" }, this.title);
    this.element = html("article", { class: "card", "aria-labelledby": this.title.id }, this.head);
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
      html("label", { for: id }, `Quota of ${name}, such as 100/s burst 200`),
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
    const estimated = limit.estimated ? "Rates are estimated: the log is too small for all decisions of a sample." : "";
    say(this.note, this.counted ? estimated : this.uncounted);
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
  else if (state === "half_open") icon.append(circle(), svg("path", { class: "full", d: "M9 2a7 7 0 0 1 0 14z" }));
  else if (state === "disabled") icon.append(circle(), svg("path", { d: "M4 14L14 4" }));
  else icon.append(circle(), svg("path", { d: "M5.5 9.5l2.5 2.5l4.5-5.5" }));
  return icon;
}

/** A breaker: its state now and over time, its failures, and its switches. */
export class BreakerCard extends Card {
  constructor(name, { interval, breakers }) {
    super(name);
    this.history = new History(["state"]);
    this.badge = html("span", { class: "state" });
    this.head.append(this.badge);
    this.states = new States(this.history, `State of ${name}`, STATES, interval);
    this.figures = new Figures(["failures since a success", "failures in the window", "refused"], false);
    this.add(this.states.element, this.figures.element);
    if (breakers?.includes(name)) {
      const outcome = html("p", { class: "outcome" });
      const switches = html("div", { class: "row" },
        this.button("Trip", { action: "trip", name }, outcome), this.button("Reset", { action: "reset", name }, outcome));
      this.add(switches, outcome);
    }
  }

  /** Returns the name of the state if it is another one than before. */
  update(breaker, at) {
    const { state, counts } = breaker;
    const before = this.badge.dataset.state;
    if (before !== state) {
      this.badge.dataset.state = state;
      this.badge.replaceChildren(shape(state), html("span"));
    }
    say(this.badge.lastChild, counts ?? STATES[state] ?? "none");
    this.history.add(at, [state]);
    this.states.draw();
    const window = breaker.calls > 0 ? `${short(breaker.failures)} of ${short(breaker.calls)}` : null;
    this.figures.show([short(breaker.consecutive), window, breaker.refused == null ? null : perSecond(breaker.refused)]);
    return before != null && before !== state ? STATES[state] : null;
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

  update({ inFlight = null, limit = null, queued = null, refused = null, keys }, at) {
    this.history.add(at, [inFlight, limit, queued]);
    this.figures.show([inFlight, limit, queued].map(short));
    this.lines.draw();
    const parts = [refused == null ? "" : `${perSecond(refused)} refused`, keys == null ? "" : `${short(keys)} keys`];
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
