//! The files generated from the keys are checked in, and up to date. `DAMPER_WRITE=1` writes them.

use damper_config::{Settings, Sources, json_schema, reference, sample};
use std::path::Path;
use std::{env, fs};

fn assert_written(name: &str, generated: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if env::var_os("DAMPER_WRITE").is_some() {
        fs::write(&path, generated).unwrap();
    }
    fs::read_to_string(&path).unwrap()
}

#[test]
fn the_reference_is_what_the_keys_say() {
    assert_eq!(assert_written("reference.md", &reference()), reference(), "run with DAMPER_WRITE=1");
}

#[test]
fn the_sample_is_what_the_keys_say_and_has_the_defaults() {
    assert_eq!(assert_written("sample.toml", &sample()), sample(), "run with DAMPER_WRITE=1");
    assert_eq!(Sources::new().toml("sample", &sample()).load().unwrap(), Settings::default());
    // With a value for each key that is unset, and without those that a quota stands instead of.
    let all: String = sample()
        .lines()
        .map(|line| if line.starts_with("# ") && line.contains(" = ") { &line[2..] } else { line })
        .filter(|line| !["requests_per_second", "burst", "window_calls"].iter().any(|key| line.starts_with(key)))
        .flat_map(|line| [line, "\n"])
        .collect();
    let all = all.replace("cooldown = \"30s\"", "cooldown = \"1s\"").replace("mark = false", "mark = true");
    Sources::new().toml("sample", &all).load().unwrap();
}

#[test]
fn the_schema_is_what_the_keys_say_and_has_every_key() {
    // Members may come in another order, by a feature of serde_json.
    let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let schema = read(&json_schema());
    assert_eq!(read(&assert_written("schema.json", &json_schema())), schema, "run with DAMPER_WRITE=1");
    for key in Settings::keys() {
        let pointer = format!("/properties/{}", key.path.replace('.', "/properties/"));
        let property = schema.pointer(&pointer).unwrap_or_else(|| panic!("{} is in no schema", key.path));
        assert_eq!(property["description"], key.doc);
        let default = key.default.map(|text| read(&text)).unwrap_or_default();
        assert_eq!(property.get("default").cloned().unwrap_or_default(), default, "{}", key.path);
    }
}

#[test]
fn every_key_has_a_description_and_a_default_in_its_range() {
    for key in Settings::keys() {
        assert!(key.doc.ends_with('.') && key.doc.len() > 10, "{}", key.path);
        if let Some(default) = key.default {
            Sources::new().toml(&key.path, &format!("{} = {default}", key.path)).load().unwrap();
        }
    }
}
