//! The run as a picture: what became of the requests, and the state of the breaker below.

use crate::figure::figure;
use crate::options::Options;
use crate::plan::{Phase, Plan};
use crate::run::Evidence;
use crate::tally::{BIN, Bin, Counts};
use damper::breaker::State;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 920;
const MARGIN: u32 = 20;
/// The title and the legend.
const HEAD: u32 = 100;
/// The names of the phases, above the first plot.
const PHASES: u32 = 46;
/// The name of a plot, above it.
const NAME: u32 = 34;
/// The height of a plot, in pixels.
const PLOT: u32 = 150;
/// The labels of the vertical axis.
const AXIS: u32 = 70;
/// The band of the breaker, with the horizontal axis.
const BAND: u32 = 110;
const SIZE: (u32, u32) = (WIDTH, 2 * MARGIN + HEAD + PHASES + 2 * (NAME + PLOT) + BAND);

const INK: RGBColor = RGBColor(31, 35, 40);
const PALE: RGBColor = RGBColor(89, 99, 110);
const GRID: RGBColor = RGBColor(234, 238, 242);

/// An outcome of requests: its name, its colour and its count.
type Fate = (&'static str, RGBColor, fn(&Counts) -> u64);

/// In the order in which they are stacked.
///
/// The colours differ for the colour-blind too, and from those of the breaker.
const FATES: [Fate; 4] = [
    ("allowed", RGBColor(86, 160, 211), |counts| counts.allowed),
    ("429: over the limit", RGBColor(240, 170, 30), |counts| counts.limited),
    ("503: breaker open", RGBColor(150, 120, 210), |counts| counts.refused),
    ("502, 504: failed", RGBColor(190, 10, 50), |counts| counts.failed),
];

const STATES: [State; 3] = [State::Closed, State::Open, State::HalfOpen];

/// Writes the picture below `directory` and returns where.
///
/// It is in its `target` if it has one, as a checkout does, else in itself.
pub(crate) fn write(directory: &Path, picture: &str) -> Result<PathBuf, String> {
    let target = directory.join("target");
    let path = if target.is_dir() { target } else { directory.to_owned() }.join("gateway.svg");
    match fs::write(&path, picture) {
        Ok(()) => Ok(path),
        Err(error) => Err(format!("cannot write the chart to {}: {error}", path.display())),
    }
}

/// The picture, as SVG.
pub(crate) fn draw(options: &Options, plan: &Plan, evidence: &Evidence) -> Result<String, Box<dyn Error>> {
    let mut picture = String::new();
    paint(&SVGBackend::with_string(&mut picture, SIZE).into_drawing_area(), options, plan, evidence)?;
    Ok(picture)
}

fn paint(root: &Area<'_>, options: &Options, plan: &Plan, evidence: &Evidence) -> Result<(), Box<dyn Error>> {
    root.fill(&WHITE)?;
    let (head, rest) = root.margin(MARGIN, MARGIN, MARGIN, MARGIN).split_vertically(HEAD);
    let (flooder, rest) = rest.split_vertically(PHASES + NAME + PLOT);
    let (others, band) = rest.split_vertically(NAME + PLOT);
    draw_head(&head, options, plan)?;
    let bins = |side: fn(&Bin) -> Counts| evidence.totals.bins.iter().map(side).collect::<Vec<_>>();
    draw_plot(&flooder, PHASES, "the flooding client", plan, &bins(|bin| bin.flooder))?;
    let name = match plan.addresses().len() - 1 {
        1 => "the other client".to_owned(),
        others => format!("the other {others} clients together"),
    };
    draw_plot(&others, 0, &name, plan, &bins(|bin| bin.others))?;
    draw_phases(&flooder, plan)?;
    draw_band(&band, plan, evidence)?;
    root.present()?;
    Ok(())
}

fn text(size: u32, color: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&color).pos(Pos::new(horizontal, VPos::Center))
}

fn draw_head(area: &Area<'_>, options: &Options, plan: &Plan) -> Result<(), Box<dyn Error>> {
    let title =
        format!("{} clients, {} each: one floods, then the upstream fails", plan.addresses().len(), options.quota());
    area.draw(&Text::new(title, (0, 10), text(22, INK, HPos::Left)))?;
    // The SVG backend has no font to measure with, so the columns are set by hand.
    area.draw(&Text::new("requests", (0, 48), text(16, PALE, HPos::Left)))?;
    for ((name, color, _), x) in FATES.into_iter().zip([90, 240, 430, 620]) {
        draw_key(area, name, color, (x, 48))?;
    }
    area.draw(&Text::new("breaker", (0, 78), text(16, PALE, HPos::Left)))?;
    for (state, x) in STATES.into_iter().zip([90, 240, 430]) {
        draw_key(area, &state.to_string(), fill(state), (x, 78))?;
    }
    Ok(())
}

/// An entry of the legend.
fn draw_key(area: &Area<'_>, name: &str, color: RGBColor, (x, y): (i32, i32)) -> Result<(), Box<dyn Error>> {
    area.draw(&Rectangle::new([(x, y - 7), (x + 14, y + 7)], color.filled()))?;
    area.draw(&Text::new(name.to_owned(), (x + 21, y), text(16, INK, HPos::Left)))?;
    Ok(())
}

/// The names of the phases, above the first plot.
fn draw_phases(area: &Area<'_>, plan: &Plan) -> Result<(), Box<dyn Error>> {
    let width = f64::from(area.dim_in_pixel().0 - AXIS);
    for phase in Phase::ALL {
        let middle = f64::midpoint(plan.start_of(phase).as_secs_f64(), plan.end_of(phase).as_secs_f64());
        let x = (f64::from(AXIS) + width * middle / plan.length().as_secs_f64()) as i32;
        area.draw(&Text::new(phase.name(), (x, 8), text(18, INK, HPos::Center)))?;
        area.draw(&Text::new(story(phase, plan), (x, 28), text(15, PALE, HPos::Center)))?;
    }
    Ok(())
}

/// Stacks what became of some clients' requests.
fn draw_plot(area: &Area<'_>, above: u32, name: &str, plan: &Plan, bins: &[Counts]) -> Result<(), Box<dyn Error>> {
    let seconds = plan.length().as_secs_f64();
    let highest = bins.iter().map(Counts::answered).max().unwrap_or(0);
    let top = (figure(highest) * 1.08).max(4.0);
    let mut chart = ChartBuilder::on(area)
        .margin_top(above + NAME)
        .set_label_area_size(LabelAreaPosition::Left, AXIS)
        .build_cartesian_2d(0.0..seconds, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(PALE)
        .y_labels(5)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .y_label_style(("sans-serif", 15).into_font().color(&INK))
        .draw()?;
    let title = format!("{name}: requests per {} ms", BIN.as_millis());
    area.draw(&Text::new(title, (AXIS as i32, (above + NAME / 2 + 2) as i32), text(16, INK, HPos::Left)))?;
    let mut below = vec![0; bins.len()];
    for (_, color, value) in FATES {
        let values: Vec<u64> = bins.iter().map(value).collect();
        for (from, until) in stretches(&values) {
            let outline = outline(from, &below[from..until], &values[from..until]);
            chart.draw_series([Polygon::new(outline, color.filled())])?;
        }
        below.iter_mut().zip(values).for_each(|(below, value)| *below += value);
    }
    for phase in [Phase::Flood, Phase::Outage, Phase::Recovery] {
        let from = plan.start_of(phase).as_secs_f64();
        chart.draw_series(DashedLineSeries::new([(from, 0.0), (from, top)], 6, 5, PALE.stroke_width(1)))?;
    }
    Ok(())
}

/// The events of a phase.
fn story(phase: Phase, plan: &Plan) -> String {
    match phase {
        Phase::Calm => "all under the limit".to_owned(),
        Phase::Flood => format!("one client sends {:.0} × its limit", plan.flood_factor()),
        Phase::Outage => "upstream fails, then stalls".to_owned(),
        Phase::Recovery => "upstream answers again".to_owned(),
    }
}

/// The ranges of bins in which there is something to draw.
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

/// Steps as wide as a bin: forward along the tops, and back along what is `below`.
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

fn draw_band(area: &Area<'_>, plan: &Plan, evidence: &Evidence) -> Result<(), Box<dyn Error>> {
    let seconds = plan.length().as_secs_f64();
    let mut chart = ChartBuilder::on(area)
        .margin_top(18)
        .set_label_area_size(LabelAreaPosition::Left, AXIS)
        .set_label_area_size(LabelAreaPosition::Bottom, 46)
        .build_cartesian_2d(0.0..seconds, 0.0..1.0)?;
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
        chart.draw_series([Rectangle::new([(from, 0.0), (until, 1.0)], fill(state).filled())])?;
    }
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_y_axis()
        .axis_style(PALE)
        .x_labels(13)
        .x_label_formatter(&|value| format!("{}", (value * 100.0).round() / 100.0))
        .x_label_style(("sans-serif", 15).into_font().color(&INK))
        .x_desc("seconds since the start")
        .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
        .draw()?;
    area.draw(&Text::new("breaker", (0, 34), text(16, INK, HPos::Left)))?;
    Ok(())
}

const fn fill(state: State) -> RGBColor {
    match state {
        State::Closed | State::ForcedClosed | State::Disabled => RGBColor(200, 225, 205),
        State::Open | State::ForcedOpen => RGBColor(75, 85, 99),
        State::HalfOpen => RGBColor(20, 170, 160),
    }
}

#[cfg(test)]
mod tests;
