//! The run as a picture: what became of the requests, and the state of the breaker below.

use crate::figure::figure;
use crate::options::Options;
use crate::plan::{Phase, Plan};
use crate::run::Evidence;
use crate::tally::{BIN, Counts};
use damper::State;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (1_080, 600);
const MARGIN: u32 = 24;
/// The title and the legend.
const HEAD: u32 = 84;
/// The names of the phases, above the plot.
const PHASES: u32 = 42;
/// The labels of the vertical axis.
const AXIS: u32 = 62;
/// The band of the breaker, with the horizontal axis.
const BAND: u32 = 92;

const INK: RGBColor = RGBColor(31, 35, 40);
const PALE: RGBColor = RGBColor(101, 109, 118);
const GRID: RGBColor = RGBColor(234, 238, 242);

/// A line: its name, its colour (told apart by the colour-blind too) and its value.
type Line = (&'static str, RGBColor, fn(&Counts) -> u64);

const LINES: [Line; 4] = [
    ("allowed", RGBColor(0, 114, 178), |counts| counts.allowed),
    ("over the limit: 429", RGBColor(230, 159, 0), |counts| counts.limited),
    ("refused by the breaker: 503", RGBColor(130, 80, 223), |counts| counts.refused),
    ("failed: 502, 504", RGBColor(207, 34, 46), |counts| counts.failed),
];

/// `gateway.svg` in the directory that cargo builds in.
pub(crate) fn path() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("target"), PathBuf::from);
    let _ = fs::create_dir_all(&target);
    // Shown without the detour over the package; as it is where it does not exist, which writing will report.
    target.canonicalize().unwrap_or(target).join("gateway.svg")
}

pub(crate) fn draw(path: &Path, options: &Options, plan: &Plan, evidence: &Evidence) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.margin(MARGIN, MARGIN, MARGIN, MARGIN).split_vertically(HEAD);
    let (plot, band) = rest.split_vertically(SIZE.1 - 2 * MARGIN - HEAD - BAND);
    draw_head(&head, options, plan)?;
    draw_plot(&plot, plan, &evidence.totals.bins)?;
    draw_band(&band, plan, evidence)?;
    root.present()?;
    Ok(())
}

fn text(size: u32, color: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&color).pos(Pos::new(horizontal, VPos::Center))
}

fn draw_head(area: &Area<'_>, options: &Options, plan: &Plan) -> Result<(), Box<dyn Error>> {
    let title = format!(
        "A gateway in trouble: {} clients, {} each, one of them floods; then the upstream fails",
        plan.addresses().len(),
        options.quota()
    );
    area.draw(&Text::new(title, (0, 10), text(22, INK, HPos::Left)))?;
    // Backends without a font cannot measure, so the columns are set by hand.
    for ((name, color, _), x) in LINES.into_iter().zip([0, 108, 284, 514]) {
        area.draw(&PathElement::new([(x, 54), (x + 24, 54)], color.stroke_width(3)))?;
        area.draw(&Text::new(name, (x + 32, 54), text(16, INK, HPos::Left)))?;
    }
    for (state, x) in [State::Closed, State::Open, State::HalfOpen].into_iter().zip([712, 858, 934]) {
        area.draw(&Rectangle::new([(x, 47), (x + 14, 61)], fill(state).filled()))?;
        let name = if state == State::Closed { format!("breaker: {state}") } else { state.to_string() };
        area.draw(&Text::new(name, (x + 21, 54), text(16, INK, HPos::Left)))?;
    }
    Ok(())
}

fn draw_plot(area: &Area<'_>, plan: &Plan, bins: &[Counts]) -> Result<(), Box<dyn Error>> {
    let seconds = plan.length().as_secs_f64();
    let highest = bins.iter().flat_map(|bin| LINES.map(|(_, _, value)| value(bin))).max().unwrap_or(0);
    let top = (figure(highest) * 1.08).max(4.0);
    let mut chart = ChartBuilder::on(area)
        .margin_top(PHASES)
        .set_label_area_size(LabelAreaPosition::Left, AXIS)
        .build_cartesian_2d(0.0..seconds, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(PALE)
        .y_labels(6)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .y_label_style(("sans-serif", 15).into_font().color(&INK))
        .y_desc(format!("requests per {} ms", BIN.as_millis()))
        .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
        .draw()?;
    for phase in Phase::ALL {
        let (from, until) = (plan.start_of(phase).as_secs_f64(), plan.end_of(phase).as_secs_f64());
        if phase != Phase::Calm {
            chart.draw_series(DashedLineSeries::new([(from, 0.0), (from, top)], 6, 5, PALE.stroke_width(1)))?;
        }
        // Pixels of the whole picture; the area counts from its own corner.
        let (x, y) = chart.backend_coord(&(f64::midpoint(from, until), top));
        let (left, above) = area.get_base_pixel();
        let (x, y) = (x - left, y - above);
        area.draw(&Text::new(phase.name(), (x, y - 30), text(18, INK, HPos::Center)))?;
        area.draw(&Text::new(story(phase, plan), (x, y - 11), text(14, PALE, HPos::Center)))?;
    }
    for (_, color, value) in LINES {
        let values: Vec<u64> = bins.iter().map(value).collect();
        for (from, values) in stretches(&values) {
            let steps = steps(from, values);
            chart.draw_series([Polygon::new(steps.clone(), color.mix(0.12))])?;
            chart.draw_series(LineSeries::new(steps, color.stroke_width(2)))?;
        }
    }
    Ok(())
}

/// What happens in a phase.
fn story(phase: Phase, plan: &Plan) -> String {
    match phase {
        Phase::Calm => "all under the limit".to_owned(),
        Phase::Flood => format!("one client sends {:.0} times its limit", plan.flood_factor()),
        Phase::Outage => "upstream answers 503, then nothing".to_owned(),
        Phase::Recovery => "upstream answers again".to_owned(),
    }
}

/// The parts of a line that leave zero, each with its first bin: a line at zero says nothing and hides others.
fn stretches(values: &[u64]) -> Vec<(usize, &[u64])> {
    let mut stretches = Vec::new();
    let mut from = 0;
    for stretch in values.split(|value| *value == 0) {
        if !stretch.is_empty() {
            stretches.push((from, stretch));
        }
        from += stretch.len() + 1;
    }
    stretches
}

/// Every bin as a step as wide as it is, up from zero before the first and down to it after the last.
fn steps(from: usize, values: &[u64]) -> Vec<(f64, f64)> {
    let edge = |bin: usize| figure(bin as u64) * BIN.as_secs_f64();
    let mut points = vec![(edge(from), 0.0)];
    for (bin, value) in (from..).zip(values) {
        points.extend([(edge(bin), figure(*value)), (edge(bin + 1), figure(*value))]);
    }
    points.push((edge(from + values.len()), 0.0));
    points
}

fn draw_band(area: &Area<'_>, plan: &Plan, evidence: &Evidence) -> Result<(), Box<dyn Error>> {
    let seconds = plan.length().as_secs_f64();
    let mut chart = ChartBuilder::on(area)
        .margin_top(14)
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
    area.draw(&Text::new("breaker", (0, 30), text(16, INK, HPos::Left)))?;
    Ok(())
}

const fn fill(state: State) -> RGBColor {
    match state {
        State::Closed | State::ForcedClosed | State::Disabled => RGBColor(172, 216, 180),
        State::Open | State::ForcedOpen => RGBColor(240, 128, 120),
        State::HalfOpen => RGBColor(250, 204, 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{steps, stretches};

    #[test]
    fn a_line_is_drawn_where_it_leaves_zero() {
        assert_eq!(stretches(&[0, 0, 3, 4, 0, 0, 1]), [(2, &[3, 4][..]), (6, &[1])]);
        assert!(stretches(&[0, 0]).is_empty());
    }

    #[test]
    fn a_bin_is_a_step() {
        assert_eq!(steps(10, &[3]), [(1.0, 0.0), (1.0, 3.0), (1.1, 3.0), (1.1, 0.0)]);
    }
}
