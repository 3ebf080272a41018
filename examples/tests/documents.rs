//! Checks the documents: pictures are legible, and listings equal the files that they show.

mod svg;

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn pictures_can_be_read() {
    for picture in ["docs/benchmarks.svg", "docs/gateway.svg", "docs/scale.svg"] {
        println!("{picture}"); // shown if it fails
        svg::assert_readable(&read(picture));
    }
}

#[test]
fn benchmark_rows_are_named_for_people() {
    let picture = read("docs/benchmarks.svg");
    let texts = picture.split("<text").skip(1).map(|text| text.split_once("</text>").expect("ends").0);
    for text in texts.filter_map(|text| Some(text.split_once('>')?.1)) {
        // The names of crates may have an underscore.
        assert!(!text.contains('_') || text.contains("tower_governor") || text.contains("quick_cache"), "{text}");
    }
}

#[test]
fn firmware_readme_shows_the_code_of_the_template() {
    let (readme, template) = (read("firmware/README.md"), read("firmware/template/src/main.rs"));
    let code = template.split_once("// The README shows the code from here to the end.\n\n").expect("says so").1;
    assert!(readme.contains(&format!("```rust\n{code}```\n")), "firmware/README.md lacks this listing:\n{code}");
}
