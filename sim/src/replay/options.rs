//! The arguments of the command.

use super::search::{Family, Share, Window};

/// The task of the command.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// The file with the decisions.
    pub file: String,
    /// The share of calls that may be refused.
    pub at_most: Share,
    /// The quotas among which to search.
    pub family: Family,
}

/// The options, which are printed after a mistake.
pub const USAGE: &str = "\
replay LOGFILE [OPTION VALUE]...
  --refuse-at-most SHARE  of the calls, such as 0.1% or 0.001 (0.1%)
  --per WINDOW            of the quotas to try: second, minute or hour (second)
  --burst N               of the quotas to try (as many as the limit)
";

const WINDOWS: [(&str, Window); 3] = [("second", Window::Second), ("minute", Window::Minute), ("hour", Window::Hour)];

impl Arguments {
    /// Reads the arguments after `replay`.
    ///
    /// # Errors
    ///
    /// A message that names the wrong argument and the allowed values.
    pub fn parse(arguments: &[&str]) -> Result<Self, String> {
        let [file, options @ ..] = arguments else { return Err(format!("the file is missing\n\n{USAGE}")) };
        let mut parsed = Self {
            file: (*file).to_owned(),
            at_most: share("--refuse-at-most", "0.1%")?,
            family: Family { window: Window::Second, burst: None },
        };
        for pair in options.chunks(2) {
            let [name, value] = *pair else { return Err(format!("{} has no value\n\n{USAGE}", pair[0])) };
            match name {
                "--refuse-at-most" => parsed.at_most = share(name, value)?,
                "--per" => {
                    let window = WINDOWS.iter().find(|(window, _)| *window == value);
                    parsed.family.window =
                        window.ok_or_else(|| format!("{name} {value}: must be second, minute or hour"))?.1;
                }
                "--burst" => {
                    let burst = value.parse().ok().filter(|burst| *burst > 0);
                    parsed.family.burst =
                        Some(burst.ok_or_else(|| format!("{name} {value}: must be from 1 to {}", u32::MAX))?);
                }
                _ => return Err(format!("{name} is not an option\n\n{USAGE}")),
            }
        }
        Ok(parsed)
    }
}

/// Reads a share: a percentage, or a number from 0 to 1.
fn share(name: &str, value: &str) -> Result<Share, String> {
    let (number, whole) = value.strip_suffix('%').map_or((value, 1.0), |percentage| (percentage, 100.0));
    let share = number.parse::<f64>().ok().and_then(|number| Share::new(number / whole));
    share.ok_or_else(|| format!("{name} {value}: must be from 0% to 100%, or from 0 to 1"))
}
