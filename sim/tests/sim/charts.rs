//! Charts and tables match their data.

use damper_sim::chart::{Chart, Line, Panel};
use damper_sim::concurrency::report::record;
use damper_sim::concurrency::rules::Contender;
use damper_sim::concurrency::scenarios;
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

/// The row of each scenario under all rules, in `docs/charts/tables.md`.
fn stored_rows() -> Vec<Vec<&'static str>> {
    let tables = include_str!("../../../docs/charts/tables.md");
    let (_, all_rules) = tables.split_once("## All rules").expect("the table of all rules is stored");
    let rows = all_rules.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn stored_table_has_every_scenario_and_rule() {
    let mut rows = stored_rows().into_iter();
    let rules = Contender::ALL.map(Contender::name);
    assert_eq!(rows.next().expect("a head")[1..], rules);
    let names: Vec<_> = rows.skip(1).map(|row| row[0]).collect();
    assert_eq!(names, scenarios::all().iter().map(|scenario| scenario.name).collect::<Vec<_>>());
}

/// Another machine's logarithms may differ in the last bit, and so its figures in the second digit.
#[test]
fn stored_figures_match_the_rule() {
    let rows = stored_rows();
    for name in [
        "1 worker, exponential 100 ms, 10x",
        "4 workers, log-normal 1, 20 ms, 10x",
        "three times slower for good, 0.3x",
    ] {
        let stored = rows.iter().find(|row| row[0] == name).expect("the scenario is stored")[1];
        let stored: Vec<f64> = stored.split(" / ").map(|figure| figure.parse().expect("a number")).collect();
        let summary = record(Contender::Damper, &scenarios::named(name).expect("a scenario"), 1).summary();
        let measured = [summary.throughput, summary.latency[1], summary.drift];
        let close = stored.iter().zip(measured).all(|(stored, measured)| (stored - measured).abs() <= 0.05);
        assert!(
            close,
            "{name}: {measured:?}, but docs/charts has {stored:?}; run `damper-sim concurrency docs/charts`"
        );
    }
}
