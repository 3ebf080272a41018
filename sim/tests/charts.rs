//! Charts and tables are what they claim to be.

use damper_sim::chart::{Chart, Line, Panel};
use damper_sim::table::Table;

fn chart() -> Chart {
    let line = |name: &str, points: &[f64]| Line { name: name.into(), points: points.to_vec() };
    let panel = |title: &str, lines| Panel { title: title.into(), lines };
    let lines = vec![line("a < b & c", &[1.0, 20.0, 300.0]), line("with a gap", &[2.0, 0.0, 2.0])];
    let panels = vec![panel("limit", lines), panel("nothing", vec![line("empty", &[])])];
    Chart { title: "<title> & more".into(), step: 10.0, panels }
}

#[test]
fn svg_is_well_formed_and_has_a_line_for_each() {
    let svg = chart().svg();
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let count = |tag: &str| document.descendants().filter(|node| node.has_tag_name(tag)).count();
    assert_eq!(count("polyline"), 3);
    assert!(document.descendants().any(|node| node.text() == Some("a < b & c")));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn table_reads_as_text_and_as_markdown() {
    let mut table = Table::new("Title", &["name", "value"]);
    table.row(vec!["long name".into(), "1".into()]);
    assert_eq!(table.text(), "Title\n\nname       value\nlong name      1\n");
    assert_eq!(table.markdown(), "## Title\n\n| name | value |\n|---|---:|\n| long name | 1 |\n");
}
