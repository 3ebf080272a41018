// The changes of a breaker's state: what is known of them, and how they read.

/** The most changes that a page keeps of one breaker. */
const MOST = 50;

/** How far two readings of one change may be apart, in seconds. */
const SAME = 0.1;

const KEYS = 8192;

/** How a state reads. */
export const STATES = { closed: "closed", half_open: "half-open", returning: "returning", open: "open", forced_open: "forced open", forced_closed: "forced closed", disabled: "disabled" };

/** A time of day, to the millisecond, as logs have it; with the date if that is another one than today. */
export function clockTime(seconds) {
  const time = new Date(Math.round(seconds * 1000)), now = new Date();
  const two = (number) => String(number).padStart(2, "0");
  const day = time.toDateString() === now.toDateString() ? "" : `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} `;
  return `${day}${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

/** A span of time, in its two largest units. */
export function span(seconds) {
  const whole = Math.floor(seconds);
  const units = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([unit]) => whole >= unit);
  if (first < 0) return "less than 1 s";
  const parts = units.slice(first, first + 2).map(([unit, name], index) => [Math.floor((index === 0 ? whole : whole % units[first][0]) / unit), name]);
  return parts.filter(([count]) => count > 0).map(([count, name]) => `${count} ${name}`).join(" ");
}

/** The changes of one breaker, or the newest of several breakers, the oldest first. */
export class Changes {
  constructor() {
    this.list = [];
    this.openings = 0;
    this.single = false;
    this.known = false;
    /** The last change that left the closed state. */
    this.leftClosed = null;
  }

  /** Takes what a sample has, and returns how often the breaker opened since the one before; `null` if that is not known. */
  take({ breakers, openings, changes }, at, wall) {
    this.single = breakers === 1;
    const found = changes.map(([generation, ago, from, to, cause]) => ({ generation, at: at - ago, wall: wall - ago, from, to, cause }));
    this.leftClosed = found.findLast(({ from }) => from === "closed") ?? null;
    if (this.single) for (const change of found) this.add(change);
    // The generations of several breakers do not tell their changes apart.
    else this.list = found;
    const before = this.known && openings >= this.openings ? this.openings : null;
    this.openings = openings;
    this.known = true;
    return before == null ? null : openings - before;
  }

  add(change) {
    const { list } = this;
    const place = list.findLastIndex((known) => known.at < change.at - SAME) + 1;
    // Those of about the same time are in the order of their generations.
    let index = place;
    for (; index < list.length && list[index].at <= change.at + SAME; index += 1) {
      const ahead = (change.generation - list[index].generation + KEYS) % KEYS;
      if (ahead === 0) return;
      if (ahead > KEYS / 2) break;
    }
    list.splice(index, 0, change);
    if (list.length > MOST) list.shift();
  }

  last() {
    return this.list.at(-1);
  }

  /** Returns how many changes are missing before this place of the list. */
  missing(index) {
    if (index === 0) return 0;
    const { list } = this;
    return (list[index].generation - list[index - 1].generation - 1 + KEYS) % KEYS;
  }
}
