//! Charts of values over time, as SVG.

use std::fmt::Write as _;

/// Panels one below the other, over the same time.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title above the panels.
    pub title: String,
    /// Seconds between two points.
    pub step: f64,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// Lines on one scale.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The quantity of the values, with their unit.
    pub title: String,
    /// Lines are coloured by their place here; a line of the same place has the same colour in each panel.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its values.
    pub points: Vec<f64>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 36.0;
const GAP: f64 = 52.0;
const COLOURS: [&str; 7] = ["#0b6e4f", "#d1495b", "#3066be", "#edae49", "#7d3c98", "#6c757d", "#111111"];

/// Values from the one decade or step of 1, 2, 5 to the other, on a logarithmic scale.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(panel: &Panel) -> Self {
        let values = || panel.lines.iter().flat_map(|line| &line.points).copied().filter(|value| *value > 0.0);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if low > high {
            return Self { low: 1.0, high: 10.0 };
        }
        let ticks = Self::ticks();
        let below = ticks.iter().rev().find(|tick| **tick <= low).copied().unwrap_or(low);
        let above = ticks.iter().find(|tick| **tick > high).copied().unwrap_or(high);
        Self { low: below, high: above }
    }

    fn ticks() -> Vec<f64> {
        (-6..7).flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade))).collect()
    }

    /// The part of the height, from the bottom.
    fn part(&self, value: f64) -> f64 {
        (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
    }
}

impl Chart {
    /// Draws it.
    #[must_use]
    pub fn svg(&self) -> String {
        let height = TOP + self.panels.len() as f64 * (HEIGHT + GAP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        text(&mut svg, LEFT, 18.0, "start", "#1f2328", &self.title);
        for (i, panel) in self.panels.iter().enumerate() {
            self.draw(&mut svg, panel, TOP + i as f64 * (HEIGHT + GAP) + 16.0);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, panel: &Panel, top: f64) {
        let scale = Scale::of(panel);
        let (right, bottom) = (WIDTH - RIGHT, top + HEIGHT);
        let points = panel.lines.iter().map(|line| line.points.len()).max().unwrap_or(0).max(2);
        let x = |i: usize| LEFT + (right - LEFT) * i as f64 / (points - 1) as f64;
        let y = |value: f64| bottom - HEIGHT * scale.part(value);
        text(svg, LEFT, top - 6.0, "start", "#1f2328", &panel.title);
        for tick in Scale::ticks().into_iter().filter(|tick| (scale.low..=scale.high).contains(tick)) {
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{right}\" y2=\"{0:.1}\" stroke=\"#ddd\"/>",
                y(tick)
            );
            text(svg, LEFT - 6.0, y(tick) + 4.0, "end", "#1f2328", &tick.to_string());
        }
        let minutes = points as f64 * self.step / 60.0;
        for sixth in 0..=6_u32 {
            let (part, label) = (f64::from(sixth) / 6.0, minutes * f64::from(sixth) / 6.0);
            text(svg, LEFT + (right - LEFT) * part, bottom + 16.0, "middle", "#1f2328", &format!("{label:.0} min"));
        }
        for (i, line) in panel.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let path: Vec<String> = (line.points.iter().enumerate())
                .filter(|(_, value)| **value > 0.0)
                .map(|(i, value)| format!("{:.1},{:.1}", x(i), y(*value)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                path.join(" ")
            );
            text(svg, right + 8.0, top + 12.0 + 16.0 * i as f64, "start", colour, &line.name);
        }
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>");
}
