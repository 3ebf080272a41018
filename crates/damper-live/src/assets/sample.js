// Reads a sample: from metrics with labels to what each card shows.

import { short } from "./charts.js";

/** The worst state first: the one that a card of several breakers shows. */
const STATES = ["open", "forced_open", "half_open", "returning", "closed", "forced_closed", "disabled"];

/** What a name has, made if it is new. */
function of(map, name, make) {
  if (!map.has(name)) map.set(name, make());
  return map.get(name);
}

function totals(sample) {
  return new Map((sample?.series ?? []).map(([metric, labels, value]) => [metric + JSON.stringify(labels), value]));
}

/** Returns what all cards show. Rates are those since the sample before. */
export function readSample(sample, before) {
  const elapsed = before ? sample.at - before.at : 0;
  const earlier = totals(before);
  // A counter that is new began at 0. After a pause, or a start of the program, there is no rate.
  const rate = (metric, labels, value) =>
    elapsed > 0 && before.number + 1 === sample.number ? Math.max(value - (earlier.get(metric + JSON.stringify(labels)) ?? 0), 0) / elapsed : null;
  const view = { limits: new Map(), breakers: new Map(), latencies: new Map(), concurrency: new Map(), keys: new Map(), budgets: new Map(), shadows: new Map(), repeated: new Set() };
  // What two sources of a name read would be mixed on one card.
  const gauges = new Set();
  for (const [metric, labels, value] of sample.series) {
    const key = metric + JSON.stringify(labels);
    if (!metric.endsWith("_total") && gauges.has(key)) view.repeated.add(Object.values(labels)[0]);
    gauges.add(key);
    const counted = () => rate(metric, labels, value);
    if (metric.startsWith("damper_limit_")) readLimit(view.limits, metric.slice(13), labels, value, counted);
    else if (metric.startsWith("damper_redis_")) readRedis(view.limits, metric.slice(13), labels, value, counted);
    else if (metric.startsWith("damper_breaker_")) readBreaker(view.breakers, metric.slice(15), labels, value, counted);
    else if (metric.startsWith("damper_concurrency_")) readConcurrency(view.concurrency, metric.slice(19), labels, value, counted);
    else if (metric === "damper_retry_budget_retries_left") view.budgets.set(labels.budget, { left: value });
    else if (metric === "damper_shadow_refusals_total") readShadow(view.shadows, labels, value, counted);
  }
  // A layer counts the requests that a limit on Redis decides, so its counters win.
  for (const limit of view.limits.values()) {
    if (limit.redis?.refused != null && limit.refused == null) Object.assign(limit, { allowed: limit.redis.allowed, refused: limit.redis.refused });
  }
  for (const log of sample.logs) {
    const limit = of(view.limits, log.limit, () => ({ parts: new Map() }));
    limit.counted = true;
    // Counters are exact, so they win.
    if (limit.refused == null) Object.assign(limit, { allowed: log.allowed, refused: log.refused, estimated: log.estimated });
    view.keys.set(log.limit, log);
  }
  for (const [name, limit] of view.limits) Object.assign(limit, { quota: sample.quotas[name], ...levels(limit) });
  for (const { name, ...record } of sample.breakers) of(view.breakers, name, () => ({ states: {} })).record = readable(record);
  for (const breaker of view.breakers.values()) Object.assign(breaker, state(breaker));
  for (const latencies of sample.latencies) view.latencies.set(latencies.name, latencies);
  return view;
}

function readLimit(limits, metric, labels, value, counted) {
  const limit = of(limits, labels.limit, () => ({ parts: new Map() }));
  if (metric === "allowed_total" || metric === "refused_total") {
    const name = metric === "allowed_total" ? "allowed" : "refused";
    // Refusals are counted by tier, prefix or scope, or by level and dimension of a tree.
    const rate = counted();
    limit[name] = rate == null ? limit[name] ?? null : (limit[name] ?? 0) + rate;
    limit[`${name}SoFar`] = (limit[`${name}SoFar`] ?? 0) + value;
    limit.counted = true;
    if (labels.level) {
      // Several plans may refuse.
      const part = of(limit.parts, `${labels.dimension} of this ${labels.level}`, () => ({}));
      part.refused = (part.refused ?? 0) + value;
    }
  } else {
    const { limit: _, ...rest } = labels;
    const part = Object.entries(rest).map(([name, label]) => `${name} ${label}`).join(", ");
    of(limit.parts, part, () => ({}))[metric] = value;
  }
}

/** A limit on Redis: the server and the policy count their decisions, leases their tokens. */
function readRedis(limits, metric, labels, value, counted) {
  const limit = of(limits, labels.limit, () => ({ parts: new Map() }));
  limit.redis ??= { allowed: null, refused: null, policy: null };
  const add = (name) => {
    const rate = counted();
    if (rate != null) limit.redis[name] = (limit.redis[name] ?? 0) + rate;
    limit.counted = true;
  };
  if (metric === "decisions_total") add(labels.verdict === "allowed" ? "allowed" : "refused");
  else if (metric === "lease_tokens_total") add("allowed");
  else if (metric === "leased_tokens") limit.redis.leased = value;
  else if (metric === "policy_in_force" && value > 0) limit.redis.policy = labels.policy;
}

/** The meters of a limit: tokens, or keys. */
function levels({ parts }) {
  const found = [];
  let rate = null;
  const capacity = parts.get("")?.keys_capacity;
  for (const [name, part] of parts) {
    // A limit without tiers of its own has one, of no name.
    const of = name && name !== "tier 0" || parts.has("tier 1") ? `${name}: ` : "";
    if (part.tokens_per_second !== undefined) {
      const burst = part.burst_tokens;
      rate = burst == null ? "Quota: unlimited" : `Quota: ${short(part.tokens_per_second)} a second, burst ${short(burst)}`;
    }
    if (part.remaining_tokens !== undefined) {
      const debt = part.debt_tokens > 0 ? `, ${short(part.debt_tokens)} owed` : "";
      found.push({ name, text: `${of}${short(part.remaining_tokens)} of ${part.burst_tokens == null ? "unlimited" : short(part.burst_tokens)} tokens left${debt}`, value: part.remaining_tokens, most: part.burst_tokens });
    }
    if (part.keys !== undefined) {
      // Only a plan could say which keys of a tree are in use.
      const use = part.keys_owing === undefined ? "" : `, ${short(part.keys_owing)} in use, ${short(part.keys_exhausted)} without a token`;
      found.push({ name, text: `${of}${short(part.keys)} keys known${use}`, value: part.keys_owing ?? part.keys, most: part.keys_capacity ?? capacity });
    }
    if (part.refused !== undefined) found.push({ name, text: `${of}${short(part.refused)} refused so far` });
    if (part.pause_seconds > 0) found.push({ name: `${name} pause`, text: `${of}paused for ${short(part.pause_seconds)} s` });
  }
  const isEmpty = [...parts.values()].some((part) => part.remaining_tokens < 1 || part.keys_exhausted > 0);
  return { levels: found, rate, isEmpty };
}

function readBreaker(breakers, metric, labels, value, counted) {
  const breaker = of(breakers, labels.breaker, () => ({ states: {} }));
  if (metric === "state") breaker.states[labels.state] = value;
  else if (metric === "refused_total") { breaker.refused = counted(); breaker.refusedSoFar = value; }
  else if (metric === "consecutive_failures") breaker.consecutive = value;
  else if (metric === "window_calls") breaker.calls = value;
  else if (metric === "window_failures") breaker.failures = value;
}

/** The states of a record as the metrics name them. */
function readable({ changes, ...record }) {
  const named = (state) => state.replace(/[ -]/, "_");
  return { ...record, changes: changes.map(([generation, ago, from, to, cause]) => [generation, ago, named(from), named(to), cause]) };
}

function state({ states }) {
  const there = STATES.filter((state) => states[state] > 0);
  const several = there.length > 1 || states[there[0]] > 1;
  const counts = several ? there.map((state) => `${short(states[state])} ${state.replace("_", "-")}`).join(", ") : null;
  return { state: there[0] ?? "none", counts };
}

function readConcurrency(limits, metric, labels, value, counted) {
  const limit = of(limits, labels.side ? `${labels.limit}, ${labels.side}` : labels.limit, () => ({}));
  if (metric === "in_flight") limit.inFlight = value;
  else if (metric === "limit") limit.limit = value;
  else if (metric === "queued") limit.queued = (limit.queued ?? 0) + value;
  else if (metric === "keys") limit.keys = value;
  else if (metric === "refused_total") {
    limit.refused = (limit.refused ?? 0) + (counted() ?? 0);
    limit.refusedSoFar = (limit.refusedSoFar ?? 0) + value;
  }
}

function readShadow(shadows, labels, value, counted) {
  const shadow = of(shadows, labels.side ? `${labels.shadow}, ${labels.side}` : labels.shadow, () => ({ rates: [null, null, null], totals: [0, 0, 0] }));
  const index = ["both", "candidate", "in_force"].indexOf(labels.by);
  if (index >= 0) { shadow.rates[index] = counted(); shadow.totals[index] = value; }
}
