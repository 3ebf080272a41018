//! The run as a picture: what became of the requests, and the state of the breaker below.

use crate::figure::figure;
use crate::options::Options;
use crate::plan::{Phase, Plan};
use crate::run::Evidence;
use crate::svg::{Anchor, Color, Font, Place, Svg};
use crate::tally::{BIN, Bin, Counts};
use damper::breaker::State;
use std::fs;
use std::path::{Path, PathBuf};

/// The width of the picture, in pixels like all that follows.
const WIDTH: f64 = 920.0;
const MARGIN: f64 = 20.0;
/// The height of the title and the legend.
const HEAD: f64 = 100.0;
/// The height of the names of the phases, above the first plot.
const PHASES: f64 = 46.0;
/// The height of the name of a plot, above it.
const NAME: f64 = 34.0;
/// The height of a plot.
const PLOT: f64 = 150.0;
/// The space above the band of the breaker, and its height.
const BAND: (f64, f64) = (18.0, 46.0);
/// The height of the horizontal axis.
const SCALE: f64 = 46.0;
/// The plots and the band lie between these, to the right of the labels of the vertical axis.
const LEFT: f64 = MARGIN + 70.0;
const RIGHT: f64 = WIDTH - MARGIN;
const HEIGHT: f64 = 2.0 * MARGIN + HEAD + PHASES + 2.0 * (NAME + PLOT) + BAND.0 + BAND.1 + SCALE;

const INK: Color = Color(31, 35, 40);
const PALE: Color = Color(89, 99, 110);
const GRID: Color = Color(234, 238, 242);

const TITLE: Font = (18, INK);
const HEADING: Font = (15, INK);
const NAMES: Font = (13, INK);
const REMARK: Font = (13, PALE);
const TICKS: Font = (12, INK);
const STORY: Font = (12, PALE);

/// An outcome of requests: its name, its colour and its count.
type Fate = (&'static str, Color, fn(&Counts) -> u64);

/// In the order in which they are stacked.
///
/// The colours differ for the colour-blind too, and from those of the breaker.
const FATES: [Fate; 4] = [
    ("allowed", Color(86, 160, 211), |counts| counts.allowed),
    ("429: over the limit", Color(240, 170, 30), |counts| counts.limited),
    ("503: breaker open", Color(150, 120, 210), |counts| counts.refused),
    ("502, 504: failed", Color(190, 10, 50), |counts| counts.failed),
];

const STATES: [State; 3] = [State::Closed, State::Open, State::HalfOpen];

/// Writes the picture into the folder `target` of `directory`, which git does not see, and returns where.
pub(crate) fn write(directory: &Path, picture: &str) -> Result<PathBuf, String> {
    let target = directory.join("target");
    let path = target.join("gateway.svg");
    match fs::create_dir_all(target).and_then(|()| fs::write(&path, picture)) {
        Ok(()) => Ok(path),
        Err(error) => Err(format!("cannot write the chart to {}: {error}", path.display())),
    }
}

/// Draws the picture, as SVG.
pub(crate) fn draw(options: &Options, plan: &Plan, evidence: &Evidence) -> String {
    let mut picture = Svg::new(WIDTH as u32, HEIGHT as u32);
    draw_head(&mut picture, options, plan);
    draw_phases(&mut picture, plan, MARGIN + HEAD);
    let bins = |side: fn(&Bin) -> Counts| evidence.totals.bins.iter().map(side).collect::<Vec<_>>();
    let top = MARGIN + HEAD + PHASES;
    draw_plot(&mut picture, top, "the flooding client", plan, &bins(|bin| bin.flooder));
    let name = match plan.addresses().len() - 1 {
        1 => "the other client".to_owned(),
        others => format!("the other {others} clients together"),
    };
    draw_plot(&mut picture, top + NAME + PLOT, &name, plan, &bins(|bin| bin.others));
    draw_band(&mut picture, top + 2.0 * (NAME + PLOT) + BAND.0, plan, evidence);
    picture.finish()
}

fn draw_head(picture: &mut Svg, options: &Options, plan: &Plan) {
    let title =
        format!("{} clients, {} each: one floods, then the upstream fails", plan.addresses().len(), options.quota());
    picture.label(&title, (MARGIN, MARGIN + 10.0), TITLE, Anchor::Start);
    // There is no font to measure with, so the columns are set by hand.
    picture.label("requests", (MARGIN, MARGIN + 48.0), REMARK, Anchor::Start);
    for ((name, color, _), x) in FATES.into_iter().zip([90.0, 240.0, 430.0, 620.0]) {
        draw_key(picture, name, color, (MARGIN + x, MARGIN + 48.0));
    }
    picture.label("breaker", (MARGIN, MARGIN + 78.0), REMARK, Anchor::Start);
    for (state, x) in STATES.into_iter().zip([90.0, 240.0, 430.0]) {
        draw_key(picture, &state.to_string(), fill(state), (MARGIN + x, MARGIN + 78.0));
    }
}

/// Draws an entry of the legend.
fn draw_key(picture: &mut Svg, name: &str, color: Color, (x, y): Place) {
    picture.rectangle((x, y - 7.0), (x + 14.0, y + 7.0), color);
    picture.label(name, (x + 21.0, y), NAMES, Anchor::Start);
}

/// Writes the names of the phases.
fn draw_phases(picture: &mut Svg, plan: &Plan, top: f64) {
    for phase in Phase::ALL {
        let middle = f64::midpoint(plan.start_of(phase).as_secs_f64(), plan.end_of(phase).as_secs_f64());
        let x = x_at(middle, plan);
        picture.label(phase.name(), (x, top + 8.0), HEADING, Anchor::Middle);
        picture.label(&story(phase, plan), (x, top + 28.0), STORY, Anchor::Middle);
    }
}

/// Returns where a moment of the run lies, in seconds since its start.
fn x_at(second: f64, plan: &Plan) -> f64 {
    LEFT + (RIGHT - LEFT) * second / plan.length().as_secs_f64()
}

/// Stacks what became of some clients' requests.
fn draw_plot(picture: &mut Svg, above: f64, name: &str, plan: &Plan, bins: &[Counts]) {
    let (top, bottom) = (above + NAME, above + NAME + PLOT);
    let highest = (figure(bins.iter().map(Counts::answered).max().unwrap_or(0)) * 1.08).max(4.0);
    let y_at = |count: f64| bottom - PLOT * count / highest;
    let title = format!("{name}: requests per {} ms", BIN.as_millis());
    picture.label(&title, (LEFT, above + NAME / 2.0), REMARK, Anchor::Start);
    for tick in ticks(highest, 5) {
        picture.stroke((LEFT, y_at(tick)), (RIGHT, y_at(tick)), GRID, "");
        picture.label(&tick.to_string(), (LEFT - 8.0, y_at(tick)), TICKS, Anchor::End);
    }
    let mut below = vec![0; bins.len()];
    for (_, color, value) in FATES {
        let values: Vec<u64> = bins.iter().map(value).collect();
        for (from, until) in stretches(&values) {
            let outline = outline(from, &below[from..until], &values[from..until]);
            picture.polygon(outline.into_iter().map(|(second, count)| (x_at(second, plan), y_at(count))), color);
        }
        below.iter_mut().zip(values).for_each(|(below, value)| *below += value);
    }
    for phase in [Phase::Flood, Phase::Outage, Phase::Recovery] {
        let x = x_at(plan.start_of(phase).as_secs_f64(), plan);
        picture.stroke((x, top), (x, bottom), PALE, "6 5");
    }
    picture.stroke((LEFT, top), (LEFT, bottom), PALE, "");
}

/// Returns the round numbers from 0 to `top` that an axis shows.
///
/// There are at most `most` steps, each of 1, 2 or 5 times a power of ten.
fn ticks(top: f64, most: u32) -> impl Iterator<Item = f64> {
    let decade = 10_f64.powf((top / f64::from(most)).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step = steps.into_iter().find(|step| top / step <= f64::from(most)).unwrap_or(top);
    // To a thousandth, because a multiple of 0.1 has many digits.
    (0..=(top / step) as u32).map(move |number| (f64::from(number) * step * 1_000.0).round() / 1_000.0)
}

/// Says what happens in a phase.
fn story(phase: Phase, plan: &Plan) -> String {
    match phase {
        Phase::Calm => "all under the limit".to_owned(),
        Phase::Flood => format!("one client sends {:.0} × its limit", plan.flood_factor()),
        Phase::Outage => "upstream fails, then stalls".to_owned(),
        Phase::Recovery => "upstream answers again".to_owned(),
    }
}

/// Returns the ranges of bins in which there is something to draw.
fn stretches(values: &[u64]) -> Vec<(usize, usize)> {
    let mut stretches = Vec::new();
    let mut from = 0;
    for stretch in values.split(|value| *value == 0) {
        if !stretch.is_empty() {
            stretches.push((from, from + stretch.len()));
        }
        from += stretch.len() + 1;
    }
    stretches
}

/// Returns steps as wide as a bin: forward along the tops, and back along what is `below`.
fn outline(from: usize, below: &[u64], values: &[u64]) -> Vec<(f64, f64)> {
    let edge = |bin: usize| figure(bin as u64) * BIN.as_secs_f64();
    let (mut tops, mut bottoms) = (Vec::new(), Vec::new());
    for ((bin, below), value) in (from..).zip(below).zip(values) {
        for at in [edge(bin), edge(bin + 1)] {
            tops.push((at, figure(below + value)));
            bottoms.push((at, figure(*below)));
        }
    }
    bottoms.reverse();
    tops.append(&mut bottoms);
    tops
}

/// Draws the state of the breaker over time, with the seconds below it.
fn draw_band(picture: &mut Svg, top: f64, plan: &Plan, evidence: &Evidence) {
    let bottom = top + BAND.1;
    let seconds = plan.length().as_secs_f64();
    let mut bands = Vec::new();
    let (mut from, mut state) = (0.0, State::Closed);
    let ends = evidence.transitions.iter().map(|next| (evidence.epoch.seconds_at(next.seen), next.to));
    for (until, next) in ends.chain([(seconds, State::Closed)]) {
        let until = until.min(seconds);
        bands.push((from, until, state));
        (from, state) = (until, next);
    }
    // A probe may take a millisecond: drawn last, and wide enough to be seen.
    bands.sort_by_key(|(_, _, state)| *state == State::HalfOpen);
    for (from, until, state) in bands {
        let until = if state == State::HalfOpen { until.max(from + seconds / 360.0) } else { until };
        picture.rectangle((x_at(from, plan), top), (x_at(until, plan), bottom), fill(state));
    }
    picture.label("breaker", (MARGIN, f64::midpoint(top, bottom)), REMARK, Anchor::Start);
    picture.stroke((LEFT, bottom), (RIGHT, bottom), PALE, "");
    for tick in ticks(seconds, 13) {
        picture.label(&tick.to_string(), (x_at(tick, plan), bottom + 14.0), TICKS, Anchor::Middle);
    }
    picture.label("seconds since the start", (f64::midpoint(LEFT, RIGHT), bottom + 36.0), NAMES, Anchor::Middle);
}

const fn fill(state: State) -> Color {
    match state {
        State::Closed | State::ForcedClosed | State::Disabled => Color(200, 225, 205),
        State::Open | State::ForcedOpen => Color(75, 85, 99),
        State::HalfOpen | State::Returning => Color(20, 170, 160),
    }
}

#[cfg(test)]
mod tests;
