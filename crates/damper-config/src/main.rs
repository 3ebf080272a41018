//! Checks files of settings, and prints the reference, the schema and the sample.

use damper_config::{Sources, json_schema, reference, sample};
use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: damper-config check [--normalized] [--environment PREFIX] [--table NAME] [--foreign NAME]... FILE...
       damper-config reference | schema | sample

check         reads the files, of which later ones override earlier ones, and lists all mistakes
--normalized  writes the settings as TOML, with defaults in the place of mistakes
--environment reads the variables PREFIX__... after the files, as the program does
--table       reads this table of each file, such as damper or app.limits
--foreign     leaves this table or key alone: it is not damper's
reference     writes all keys in Markdown
schema        writes the JSON Schema of a file
sample        writes a file with all defaults

Exit codes: 0 without a mistake, 1 with mistakes, 2 for a wrong command line or when the output cannot be written.
";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let command = arguments.first().and_then(|command| command.to_str());
    match (command, arguments.get(1..).unwrap_or_default()) {
        (Some("reference"), []) => write(&reference()),
        (Some("schema"), []) => write(&json_schema()),
        (Some("sample"), []) => write(&sample()),
        (Some("--help" | "-h" | "help"), _) => write(USAGE),
        (Some("check"), options) => match Check::of(options) {
            Some(check) if check.is_normalized => check.normalize(),
            Some(check) => check.list_mistakes(),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// The options and the files of `check`.
#[derive(Default)]
struct Check {
    is_normalized: bool,
    environment: Option<String>,
    table: Option<String>,
    foreign: Vec<String>,
    files: Vec<PathBuf>,
}

impl Check {
    /// Returns `None` if the command line is wrong.
    fn of(arguments: &[OsString]) -> Option<Self> {
        let mut check = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut text = || arguments.next().and_then(|text| text.to_str()).map(str::to_owned);
            match argument.to_str() {
                Some("--normalized") => check.is_normalized = true,
                Some("--environment") => check.environment = Some(text()?),
                Some("--table") => check.table = Some(text()?),
                Some("--foreign") => check.foreign.push(text()?),
                Some(option) if option.starts_with('-') => return None,
                _ => check.files.push(argument.into()),
            }
        }
        (!check.files.is_empty()).then_some(check)
    }

    fn sources(&self) -> Sources {
        let sources = self.files.iter().fold(Sources::new(), |sources, file| match &self.table {
            Some(table) => sources.file_at(file, table),
            None => sources.file(file),
        });
        let sources = sources.foreign(self.foreign.iter().cloned());
        match &self.environment {
            Some(prefix) => sources.environment(prefix),
            None => sources,
        }
    }

    fn list_mistakes(&self) -> ExitCode {
        match self.sources().load() {
            Ok(_) => {
                let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
                write(&format!("{}: no mistake\n", files.join(", ")))
            }
            Err(error) => {
                for problem in error.problems() {
                    eprintln!("{problem}");
                }
                ExitCode::FAILURE
            }
        }
    }

    fn normalize(&self) -> ExitCode {
        let (settings, problems) = self.sources().normalized();
        for problem in &problems {
            eprintln!("{problem}");
        }
        match write(&settings.to_toml()) {
            ExitCode::SUCCESS if !problems.is_empty() => ExitCode::FAILURE,
            code => code,
        }
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
