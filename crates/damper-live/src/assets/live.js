// The page: reads the stream, and shows each sample.

import { html, say, short } from "./charts.js";
import { BreakerCard, BudgetCard, ConcurrencyCard, KeysCard, LatencyCard, LimitCard, ShadowCard } from "./cards.js";
import { announce, change } from "./controls.js";
import { readSample } from "./sample.js";

const connection = document.querySelector("#connection");
const connectionText = document.querySelector("#connection-text");
const sampled = document.querySelector("#sampled");
const allDetails = document.querySelector("#all details");

/** Sections, and the cards that they have. */
const KINDS = {
  limits: LimitCard, breakers: BreakerCard, latencies: LatencyCard, concurrency: ConcurrencyCard, keys: KeysCard, budgets: BudgetCard, shadows: ShadowCard,
};

/** The first event of the stream. */
let hello = null;
/** The last sample. */
let last = null;
const cards = new Map();

function section(id) {
  return document.querySelector(`#${id}`);
}

function greet(event) {
  const next = JSON.parse(event.data);
  // Another program, or one with other limits: what is on the page would be wrong.
  if (hello && JSON.stringify(hello) !== JSON.stringify(next)) {
    cards.clear();
    last = null;
    for (const id of Object.keys(KINDS)) section(id).querySelector(".cards").replaceChildren();
  }
  hello = next;
  const { controls, changeable } = hello;
  const outcome = document.querySelector("#button-outcome");
  document.querySelector("#buttons").replaceChildren(...(changeable ? controls : []).map(({ name, label }) => {
    const button = html("button", { type: "button", "data-name": name }, label);
    button.addEventListener("click", () => change({ action: "press", name }, outcome));
    return button;
  }));
  section("application").hidden = !changeable || controls.length === 0;
  document.querySelector("#tokenless").hidden = changeable;
}

function show(event) {
  const sample = JSON.parse(event.data);
  const view = readSample(sample, last);
  last = sample;
  const options = {
    interval: hello.interval,
    recorder: hello.recorder,
    quotas: hello.changeable ? hello.limits : [],
    breakers: hello.changeable ? hello.breakers : [],
  };
  const changes = [];
  for (const [id, Card] of Object.entries(KINDS)) {
    for (const [name, values] of view[id]) {
      const key = `${id} ${name}`;
      let card = cards.get(key);
      if (!card) {
        card = new Card(name, options);
        cards.set(key, card);
        section(id).querySelector(".cards").append(card.element);
        section(id).hidden = false;
      }
      const changed = card.update(values, sample.at, sample.wall);
      if (changed) changes.push(`Breaker ${name}: ${changed}.`);
    }
  }
  if (changes.length > 0) announce(changes.join(" "));
  showTroubles(view.repeated);
  showStatuses(sample.statuses);
  const isEmpty = cards.size + sample.series.length + sample.statuses.length + hello.controls.length === 0;
  document.querySelector("#empty").hidden = !isEmpty;
  section("all").hidden = isEmpty;
  if (allDetails.open) showAll();
  say(sampled, `Sample ${sample.number}, every ${hello.interval} s.`);
  setConnection("live", "live");
}

/** The most troubles that are listed. */
const MOST_TROUBLES = 6;

/** Says at the top what is wrong now, breakers first, with a link to each card. */
function showTroubles(repeated) {
  const troubled = ["breakers", "limits", "concurrency", "budgets"].flatMap((id) =>
    [...cards].filter(([key, card]) => key.startsWith(`${id} `) && card.trouble).map(([, card]) => card));
  section("now").hidden = cards.size === 0;
  // For a window beside others.
  document.title = troubled.length > 0 ? `(${troubled.length}) ${hello.title}` : hello.title;
  const calm = document.querySelector("#calm");
  calm.hidden = troubled.length > 0;
  const uncounted = [...cards.values()].filter((card) => card instanceof LimitCard && !card.counted).length;
  const refusals = uncounted === 0 ? "Nothing is refused." : `The refusals of ${uncounted === 1 ? "one limit" : `${uncounted} limits`} are not counted.`;
  say(calm, [...cards.keys()].some((key) => key.startsWith("breakers ")) ? `Every breaker is closed. ${refusals}` : refusals);
  const twice = document.querySelector("#repeated");
  twice.hidden = repeated.size === 0;
  if (repeated.size > 0) say(twice, `Two sources are registered as ${[...repeated].slice(0, 3).map((name) => `"${name}"`).join(", ")}, and the page shows only one of them.`);
  const list = document.querySelector("#troubles");
  const shown = troubled.slice(0, MOST_TROUBLES);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(({ title, trouble }, index) => {
    const item = list.children[index] ?? list.appendChild(html("li", {}, html("a"), html("span")));
    item.children[0].setAttribute("href", `#${title.id}`);
    say(item.children[0], title.textContent);
    const more = index + 1 === MOST_TROUBLES && troubled.length > MOST_TROUBLES ? `; and ${troubled.length - MOST_TROUBLES} more` : "";
    say(item.children[1], ` ${trouble}${more}`);
  });
}

function showStatuses(statuses) {
  const list = document.querySelector("#statuses");
  if (statuses.length > 0) section("application").hidden = false;
  statuses.forEach(({ name, text }, index) => {
    const item = list.children[index] ?? list.appendChild(html("div", {}, html("dt"), html("dd")));
    say(item.children[0], name);
    say(item.children[1], text);
  });
}

function showAll() {
  if (!last) return;
  const rows = last.series.map(([metric, labels, value]) => html("tr", {},
    html("td", { class: "name" }, metric),
    html("td", { class: "name" }, Object.entries(labels).map(([name, label]) => `${name}=${label}`).join(" ")),
    html("td", {}, value == null ? "∞" : short(value))));
  const heads = ["Metric", "Labels", "Value"].map((head) => html("th", { scope: "col" }, head));
  const table = html("table", {}, html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...rows));
  allDetails.querySelector(".scroll").replaceChildren(table);
}

allDetails.addEventListener("toggle", showAll);

function setConnection(state, text) {
  if (connection.dataset.state !== state) {
    const before = connection.dataset.state;
    connection.dataset.state = state;
    document.body.toggleAttribute("data-stale", state === "lost");
    if (state === "lost") announce("Disconnected. The values are old.");
    if (state === "live" && before === "lost") announce("Connected again.");
  }
  say(connectionText, text);
}

/** Seconds until the next try; doubled by each that fails. */
let pause = 1;
let stream = null;
/** Rings when the stream is silent for too long, or at the next try. */
let timer = null;

function close() {
  clearTimeout(timer);
  stream?.close();
  stream = null;
}

/** Whether an event came since the stream was opened. */
let isHeard = false;

function lose() {
  const isSilent = !isHeard;
  close();
  const next = `next try in ${pause} s`;
  setConnection("lost", `disconnected, ${next}`);
  timer = setTimeout(connect, pause * 1000);
  pause = Math.min(2 * pause, 10);
  if (isSilent) explain(timer, next);
}

/** Says why a stream has not even begun, because an `EventSource` does not. */
async function explain(lost, next) {
  const reasons = {
    503: "too many pages are open",
    429: "too many pages of this address are open, or too many wrong tokens came from it",
    401: "the token to look is missing or wrong",
    200: "no event comes: does a proxy hold the stream back?",
  };
  try {
    const { status } = await fetch(new URL("events", import.meta.url), { method: "HEAD" });
    const reason = reasons[status] ?? `the server refuses with status ${status}`;
    if (timer === lost) setConnection("lost", `disconnected, ${reason}, ${next}`);
  } catch { /* There is no connection, as the page says already. */ }
}

function connect() {
  isHeard = false;
  stream = new EventSource(new URL("events", import.meta.url));
  // A stream that is silent for some intervals is as good as closed.
  const heard = (listener) => (event) => {
    clearTimeout(timer);
    isHeard = true;
    listener(event);
    timer = setTimeout(lose, 3000 * hello.interval + 4000);
  };
  stream.addEventListener("hello", heard(greet));
  stream.addEventListener("sample", heard((event) => { pause = 1; show(event); }));
  stream.addEventListener("error", lose);
  timer = setTimeout(lose, 10_000);
}

// Browsers open six connections to a host over HTTP/1.1, and a stream holds one. So a page that is not seen gives its own back.
function follow() {
  if (document.visibilityState === "hidden") {
    close();
    // There is no rate over the time that it missed.
    last = null;
    setConnection("paused", "paused while hidden");
  } else if (!stream) {
    close();
    pause = 1;
    connect();
  }
}

document.addEventListener("visibilitychange", follow);
follow();
