//! A picture in SVG, made of shapes and labels.

use std::fmt::{self, Display, Write};

/// Black on white by default, with labels of a sans-serif font.
#[derive(Debug)]
pub(crate) struct Svg(String);

/// A colour of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }
}

/// The part of a label that stands at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        })
    }
}

/// The size of a label and its colour.
pub(crate) type Font = (u32, Color);

/// A place in the picture, in pixels from its upper left corner.
pub(crate) type Place = (f64, f64);

impl Svg {
    pub(crate) fn new(width: u32, height: u32) -> Self {
        let mut picture = Self(String::new());
        picture.line(format_args!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" \
             font-family=\"sans-serif\">"
        ));
        picture.rectangle((0.0, 0.0), (f64::from(width), f64::from(height)), Color(255, 255, 255));
        picture
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // A string takes everything.
        _ = writeln!(self.0, "{line}");
    }

    pub(crate) fn rectangle(&mut self, (left, top): Place, (right, bottom): Place, fill: Color) {
        let (width, height) = (right - left, bottom - top);
        self.line(format_args!(
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        ));
    }

    pub(crate) fn polygon(&mut self, corners: impl IntoIterator<Item = Place>, fill: Color) {
        let corners: Vec<_> = corners.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.line(format_args!("<polygon points=\"{}\" fill=\"{fill}\"/>", corners.join(" ")));
    }

    /// Draws a line between two places.
    ///
    /// `dashes` is the attribute `stroke-dasharray`; without dashes the line is solid.
    pub(crate) fn stroke(&mut self, (x1, y1): Place, (x2, y2): Place, color: Color, dashes: &str) {
        self.line(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\" \
             stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    /// Writes a label, whose small letters have their middle at the place.
    pub(crate) fn label(&mut self, text: &str, (x, y): Place, (size, color): Font, anchor: Anchor) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{color}\">\
             {text}</text>"
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}
