// Charts, drawn by hand as SVG, each with a table behind it.

import { STATES } from "./changes.js";

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element of HTML. */
export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Makes an element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Sets a text only if it differs, so that selections and screen readers stay where they are. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A number with three digits or so. */
export function short(number) {
  if (number == null || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e9) return `${trim(number / 1e9)} G`;
  if (size >= 1e6) return `${trim(number / 1e6)} M`;
  if (size >= 1e4) return `${trim(number / 1e3)} k`;
  return trim(number);
}

function trim(number) {
  const size = Math.abs(number);
  const digits = size >= 100 || Number.isInteger(number) ? 0 : size >= 10 ? 1 : 2;
  return number.toFixed(digits);
}

/** A time in seconds, in the unit that suits it. */
export function time(seconds) {
  if (seconds == null) return "–";
  if (seconds < 1e-3) return `${trim(seconds * 1e6)} µs`;
  if (seconds < 1) return `${trim(seconds * 1e3)} ms`;
  return `${trim(seconds)} s`;
}

/** The smallest of 1, 2, 5, 10, ... that is no less. */
function round(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].find((step) => step * power >= most * 0.999) * power;
}

const WIDTH = 300;
const HEIGHT = 100;
const MOST_POINTS = 120;
const MOST_ROWS = 30;

/** The last values of some series, at common times. At most `MOST_POINTS` are kept. */
export class History {
  constructor(names) {
    this.names = names;
    this.points = [];
  }

  add(at, values) {
    const last = this.points.at(-1);
    // The program was started anew.
    if (last && at <= last.at) this.points = [];
    this.points.push({ at, values });
    if (this.points.length > MOST_POINTS) this.points.shift();
  }

  last() {
    return this.points.at(-1);
  }
}

/** The sample of a line in a legend. */
export function swatch(index) {
  const line = svg("line", { class: `s${index}`, x1: 0, y1: 4, x2: 22, y2: 4 });
  return svg("svg", { class: "swatch", viewBox: "0 0 22 8", "aria-hidden": "true" }, line);
}

/** Charts by their elements, and which of them are in the window or near it: only these are painted, for there may be a thousand. */
const charts = new WeakMap();
const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const chart = charts.get(target);
    chart.isNear = isIntersecting;
    chart.draw();
  }
}, { rootMargin: "50%" });

/** A part of a card that shows a history: the chart, its axes, and the table. */
class Shown {
  constructor(history, title, format, interval, className) {
    Object.assign(this, { history, title, format, interval });
    this.svg = svg("svg", { role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" });
    this.top = html("span", { class: "top", "aria-hidden": "true" });
    this.left = html("span", { class: "left" });
    this.isNear = false;
    const axis = html("div", { class: "axis", "aria-hidden": "true" }, this.left, html("span", { class: "right" }, "now"));
    this.chart = html("div", { class: `chart ${className}` }, this.svg, this.top, axis);
    this.details = html("details", {}, html("summary", {}, "Values as a table"), this.table());
    this.details.addEventListener("toggle", () => this.fill());
    this.element = html("div", {}, this.chart, this.details);
    charts.set(this.element, this);
    near.observe(this.element);
    const span = MOST_POINTS * interval;
    say(this.left, span >= 120 ? `${Math.round(span / 60)} min ago` : `${Math.round(span)} s ago`);
  }

  table() {
    const heads = this.history.names.map((name) => html("th", { scope: "col" }, name));
    this.rows = html("tbody");
    const table = html("table", {},
      html("caption", {}, `${this.title}, newest first`),
      html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "Seconds ago"), ...heads)), this.rows);
    return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${this.title}, as a table` }, table);
  }

  /** Where a time is, from left to right. */
  x(at) {
    const now = this.history.last().at;
    return WIDTH * (1 - (now - at) / (MOST_POINTS * this.interval));
  }

  fill() {
    if (!this.details.open) return;
    const { points } = this.history;
    const now = points.at(-1)?.at ?? 0;
    this.rows.replaceChildren(...points.slice(-MOST_ROWS).reverse().map(({ at, values }) =>
      html("tr", {}, html("th", { scope: "row" }, (now - at).toFixed(0)), ...values.map((value) => html("td", {}, this.format(value))))));
  }

  draw() {
    if (this.history.points.length === 0) return;
    if (this.isNear) this.paint();
    this.svg.setAttribute("aria-label", this.label());
    this.fill();
  }

  label() {
    const { values } = this.history.last();
    return `${this.title}. Now: ${this.history.names.map((name, index) => `${name} ${this.format(values[index])}`).join(", ")}.`;
  }
}

/** Lines over time. A line that is missing for a while is broken. */
export class Lines extends Shown {
  constructor(history, title, format, interval) {
    super(history, title, format, interval, "");
    this.shapes = history.names.map((_, index) => ({
      area: svg("path", { class: `a${index}` }),
      line: svg("path", { class: `line s${index}` }),
    }));
    const grid = [0.5, 50, 99.5].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }));
    this.svg.append(...grid, ...this.shapes.map(({ area }) => area), ...this.shapes.map(({ line }) => line));
  }

  paint() {
    const { points, names } = this.history;
    const most = round(Math.max(...points.flatMap(({ values }) => values.filter(Number.isFinite)), 0));
    say(this.top, this.format(most));
    names.forEach((_, index) => {
      let line = "", area = "", began = null, before = null;
      const close = () => { if (began != null) area += `L${before.toFixed(1)} ${HEIGHT}L${began.toFixed(1)} ${HEIGHT}Z`; began = null; };
      let last = -Infinity;
      for (const { at, values } of points) {
        const value = values[index];
        if (!Number.isFinite(value)) { close(); continue; }
        if (at - last > 2.5 * this.interval) close();
        const x = this.x(at), y = HEIGHT - 2 - (HEIGHT - 6) * (value / most);
        const to = `${x.toFixed(1)} ${y.toFixed(1)}`;
        if (began == null) { line += `M${to}`; area += `M${x.toFixed(1)} ${HEIGHT}L${to}`; began = x; } else { line += `L${to}`; area += `L${to}`; }
        before = x;
        last = at;
      }
      close();
      this.shapes[index].line.setAttribute("d", line);
      this.shapes[index].area.setAttribute("d", area);
    });
  }
}

/** The height of a bar says the state; its colour only repeats that. */
const HEIGHTS = { closed: 14, forced_closed: 14, disabled: 14, half_open: 55, returning: 30, open: 100, forced_open: 100 };

/** The states of a breaker over time: low is closed, half is half-open, high is open. */
export class States extends Shown {
  constructor(history, title, changes, interval) {
    super(history, title, (state) => STATES[state] ?? "–", interval, "short");
    this.changes = changes;
    this.svg.append(...[0.5, 45, 99.5].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y })));
    this.bars = svg("g");
    this.svg.append(this.bars);
    say(this.top, "open");
  }

  /** Returns the bars: each change begins one, and each sample of another state. */
  spans() {
    const { points } = this.history;
    const began = points[0].at, { list, single } = this.changes;
    const events = [...points.map(({ at, values: [state] }) => ({ at, state })), ...(single ? list : []).map(({ at, to }) => ({ at, state: to }))];
    events.sort((one, other) => one.at - other.at);
    const bars = [];
    for (const { at, state } of events) {
      const bar = bars.at(-1);
      // The samples of a page that was hidden are missing, but the changes of one breaker are all there.
      const isKnown = bar && (at - bar.seen < 2.5 * this.interval || (single && list.length > 0));
      if (isKnown) bar.to = at;
      if (isKnown && bar.state === state) bar.seen = at;
      else bars.push({ state, from: at === began ? at - this.interval : at, to: at, seen: at });
    }
    return bars;
  }

  paint() {
    const bars = this.spans().filter(({ state, to }) => state in HEIGHTS && this.x(to) >= 0);
    // High ones last, so that one of a few milliseconds is not covered by its neighbours.
    bars.sort((one, other) => HEIGHTS[one.state] - HEIGHTS[other.state]);
    this.bars.replaceChildren(...bars.map(({ state, from, to }) => {
      const x = Math.max(this.x(from), 0), height = HEIGHTS[state];
      const width = Math.max(this.x(to) - x, 1.5);
      return svg("rect", { class: `bar-${state.replace("forced_", "")}`, x: Math.min(x, WIDTH - width).toFixed(1), y: HEIGHT - height, width: width.toFixed(1), height });
    }));
  }
}
