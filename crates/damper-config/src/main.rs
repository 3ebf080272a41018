//! Checks files of settings, and writes what is generated of the keys.

use damper_config::{Sources, json_schema, reference, sample};
use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

const USAGE: &str = "\
usage: damper-config check [--normalized] FILE...
       damper-config reference | schema | sample

check        reads the files, of which later ones override earlier ones, and lists all mistakes
--normalized writes the settings as TOML, with defaults in the place of mistakes
reference    writes all keys in Markdown
schema       writes the JSON Schema of a file
sample       writes a file with all defaults

Exit codes: 0 without a mistake, 1 with mistakes, 2 for a wrong command line or when the output cannot be written.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["reference"] => write(&reference()),
        ["schema"] => write(&json_schema()),
        ["sample"] => write(&sample()),
        ["--help" | "-h" | "help"] => write(USAGE),
        ["check", "--normalized", ref files @ ..] if is_list(files) => normalize(files),
        ["check", ref files @ ..] if is_list(files) => check(files),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn is_list(files: &[&str]) -> bool {
    !files.is_empty() && !files.iter().any(|file| file.starts_with('-'))
}

fn sources(files: &[&str]) -> Sources {
    files.iter().fold(Sources::new(), Sources::file)
}

fn check(files: &[&str]) -> ExitCode {
    match sources(files).load() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn normalize(files: &[&str]) -> ExitCode {
    let (settings, problems) = sources(files).normalized();
    for problem in &problems {
        eprintln!("{problem}");
    }
    match write(&settings.to_toml()) {
        ExitCode::SUCCESS if !problems.is_empty() => ExitCode::FAILURE,
        code => code,
    }
}

fn write(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write: {error}");
            ExitCode::from(2)
        }
    }
}
