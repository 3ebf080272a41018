//! The program `damper-config`: what it writes, and its exit codes.

use std::path::PathBuf;
use std::process::Command;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_damper-config")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("program_{name}"));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn check_accepts_the_sample_and_says_so() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/sample.toml");
    assert_eq!(run(&["check", sample]), (Some(0), format!("{sample}: no mistake\n"), String::new()));
}

#[test]
fn check_reads_a_table_of_a_shared_file_and_leaves_foreign_names_alone() {
    let path = file("shared.toml", "[database]\nurl = 'x'\n[app.damper.server.http]\nport = 80\nbulkhead.limit = 0\n");
    let path = path.to_str().unwrap();
    let (code, _, errors) = run(&["check", "--table", "app.damper", "--foreign", "server.http.port", path]);
    let expected =
        format!("{path}:5:10: server.http.bulkhead.limit is 0, it must be a whole number from 1 to 1000000\n");
    assert_eq!((code, errors), (Some(1), expected));
    let (code, _, errors) = run(&["check", "--table", "dampr", path]);
    assert_eq!((code, errors), (Some(1), format!("{path}: the file has no table dampr\n")));
}

#[test]
fn check_reads_the_variables_of_the_program_too() {
    let path = file("variables.toml", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_damper-config"));
    command.args(["check", "--environment", "APP", path.to_str().unwrap()]);
    let output = command.env("APP__SERVER__HTTP__RATELIMIT__BURST", "0").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let expected = "environment variable APP__SERVER__HTTP__RATELIMIT__BURST: server.http.ratelimit.burst is \"0\", ";
    assert!(output.status.code() == Some(1) && errors.starts_with(expected), "{errors}");
}

#[test]
fn check_lists_the_mistakes_and_fails() {
    let path = file("mistakes.yaml", "server:\n  http:\n    bulkhead: {limit: 0, limits: 5}\n");
    let path = path.to_str().unwrap();
    let (code, output, errors) = run(&["check", path]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    let expected = format!(
        "{path}:3:16: server.http.bulkhead.limit is \"0\", it must be a whole number from 1 to 1000000\n\
         {path}:3:26: server.http.bulkhead.limits is no known key, did you mean server.http.bulkhead.limit?\n"
    );
    assert_eq!(errors, expected);
}

#[test]
fn normalized_settings_pass_the_check() {
    let path =
        file("normalize.json", "{\"client.http.throttle.multiplier\": 99, \"server.http.ratelimit.quota\": \"5/s\"}");
    let (code, output, errors) = run(&["check", "--normalized", path.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(errors.ends_with("it must be a number from 1 to 10; 2.0 is used instead\n"), "{errors}");
    let normalized = file("normalized.toml", &output);
    assert_eq!(run(&["check", normalized.to_str().unwrap()]).0, Some(0));
    assert_eq!(run(&["check", "--normalized", normalized.to_str().unwrap()]), (Some(0), output, String::new()));
}

#[test]
fn a_wrong_command_line_is_told() {
    for arguments in
        [&[][..], &["check"], &["check", "--what", "a.toml"], &["check", "--table", "a.toml"], &["sample", "more"]]
    {
        let (code, _, errors) = run(arguments);
        assert!(code == Some(2) && errors.starts_with("usage: damper-config check"), "{arguments:?}");
    }
}

#[test]
fn generated_files_are_written() {
    assert_eq!(run(&["reference"]).1, damper_config::reference());
    assert_eq!(run(&["schema"]).1, damper_config::json_schema());
    assert_eq!(run(&["sample"]).1, damper_config::sample());
}
