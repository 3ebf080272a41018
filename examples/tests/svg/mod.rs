//! The labels of an SVG picture: where they are, and whether they can be read.

/// A character's width as a part of the font's size.
///
/// It is at least that in the widest of the usual fonts, `DejaVu Sans`.
fn width(character: char) -> f64 {
    match character {
        ' ' | 'i' | 'j' | 'l' | 't' | 'f' | 'r' | ',' | '.' | ':' | ';' | '(' | ')' | '/' | '\'' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '×' => 1.0,
        'A'..='Z' => 0.79,
        _ => 0.64,
    }
}

/// The box that a text takes.
#[derive(Debug)]
struct Label {
    text: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Every label lies within the picture, and apart from the others.
pub(crate) fn assert_readable(svg: &str) {
    let root = svg.split_once("<svg").and_then(|(_, rest)| rest.split_once('>')).expect("is SVG").0;
    let size = |name| attribute(root, name).expect("the picture has a size").parse::<f64>().expect("is a number");
    let (width, height) = (size("width"), size("height"));
    let labels = labels(svg, root);
    assert!(!labels.is_empty());
    for (number, label) in labels.iter().enumerate() {
        assert!(
            label.left >= 0.0 && label.top >= 0.0 && label.right <= width && label.bottom <= height,
            "{:?} leaves the picture: {label:?}",
            label.text
        );
        for other in &labels[..number] {
            assert!(
                label.right <= other.left
                    || other.right <= label.left
                    || label.bottom <= other.top
                    || other.bottom <= label.top,
                "{:?} overlaps {:?}",
                label.text,
                other.text
            );
        }
    }
}

fn labels(svg: &str, root: &str) -> Vec<Label> {
    let texts = svg.split("<text").skip(1).map(|text| text.split_once("</text>").expect("ends").0);
    texts
        .map(|text| {
            let (attributes, text) = text.split_once('>').expect("its attributes end");
            let number = |name| attribute(attributes, name).map(|value| value.parse::<f64>().expect("is a number"));
            let inherited = || attribute(root, "font-size")?.parse().ok();
            let font = number("font-size").or_else(inherited).expect("has a size");
            let text = text.trim().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            let bold = if attribute(attributes, "font-weight") == Some("bold") { 1.1 } else { 1.0 };
            let width = text.chars().map(width).sum::<f64>() * font * bold;
            let (x, y) = (number("x").expect("has a place"), number("y").expect("has a place"));
            let left = match attribute(attributes, "text-anchor") {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            };
            // `dy` of half an ex puts the middle of the small letters at y, where else the baseline is.
            let baseline = if attribute(attributes, "dy").is_some() { y + 0.27 * font } else { y };
            Label { text, left, right: left + width, top: baseline - 0.75 * font, bottom: baseline + 0.25 * font }
        })
        .collect()
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let value = attributes.split_once(&format!(" {name}=\""))?.1;
    Some(value.split_once('"')?.0)
}
