//! Logs of decisions, written and damaged, are read as a slow reader reads them, and replayed.

use arbitrary::Arbitrary;
use damper::decision_log::Decision;
use damper_sim::replay::decision_file::DecisionFile;
use damper_sim::replay::search::{Family, Replay, Share, Window};
use std::time::Duration;

#[derive(Arbitrary, Debug)]
pub struct Input<'a> {
    lines: Vec<Line<'a>>,
    /// Of the search: thousandths that may be refused, and the burst.
    thousandths: u16,
    burst: Option<u8>,
}

#[derive(Arbitrary, Debug)]
enum Line<'a> {
    Decision {
        micros: u64,
        key: u64,
        cost: u32,
        is_refused: bool,
    },
    Near {
        micros: u32,
        key: u8,
        cost: u8,
    },
    Lost(u64),
    Comment(&'a str),
    /// Any fields, among them signs, letters of both cases and digits beyond the range.
    Fields(Vec<Field<'a>>),
    Text(&'a str),
}

#[derive(Arbitrary, Debug)]
enum Field<'a> {
    Number(u128),
    Hexadecimal(u128),
    Signed(i64),
    Allowed,
    Refused,
    Text(&'a str),
}

impl Line<'_> {
    fn text(&self) -> String {
        match self {
            Self::Decision { micros, key, cost, is_refused } => {
                Decision { at: Duration::from_micros(*micros), key: *key, cost: *cost, is_allowed: !is_refused }
                    .to_string()
            }
            Self::Near { micros, key, cost } => format!("{micros} {key:x} {cost} allowed"),
            Self::Lost(number) => format!("lost {number}"),
            Self::Comment(text) => format!("#{text}"),
            Self::Fields(fields) => fields.iter().map(Field::text).collect::<Vec<_>>().join(" "),
            Self::Text(text) => (*text).to_owned(),
        }
    }
}

impl Field<'_> {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Hexadecimal(number) => format!("{number:X}"),
            Self::Signed(number) => format!("{number:+}"),
            Self::Allowed => "allowed".to_owned(),
            Self::Refused => "refused".to_owned(),
            Self::Text(text) => (*text).to_owned(),
        }
    }
}

/// The value of digits to a base, by hand; `None` if it exceeds `most`, or there is something else.
fn number(text: &str, base: u32, most: u64) -> Option<u64> {
    let digits: Option<Vec<u64>> = text.chars().map(|digit| digit.to_digit(base).map(u64::from)).collect();
    let digits = digits.filter(|digits| !digits.is_empty())?;
    let value = digits.iter().try_fold(0u64, |value, digit| value.checked_mul(base.into())?.checked_add(*digit))?;
    (value <= most).then_some(value)
}

/// Reads slowly: the decisions and how many are lost, or the number of the first wrong line.
fn slow(text: &str) -> Result<(Vec<Decision>, u64), usize> {
    let (mut decisions, mut lost) = (Vec::new(), 0u64);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(more) = line.strip_prefix("lost ") {
            lost = lost.saturating_add(number(more, 10, u64::MAX).ok_or(index + 1)?);
            continue;
        }
        let fields: Vec<&str> =
            line.split(|c: char| c.is_ascii_whitespace()).filter(|field| !field.is_empty()).collect();
        let [micros, key, cost, answer] = fields[..] else { return Err(index + 1) };
        let parsed = number(micros, 10, u64::MAX).zip(number(key, 16, u64::MAX)).zip(number(cost, 10, u32::MAX.into()));
        let ((micros, key), cost) = parsed.ok_or(index + 1)?;
        let is_allowed = match answer {
            "allowed" => true,
            "refused" => false,
            _ => return Err(index + 1),
        };
        let at = Duration::from_micros(micros);
        decisions.push(Decision { at, key, cost: u32::try_from(cost).expect("at most that"), is_allowed });
    }
    decisions.sort_by_key(|decision| decision.at);
    Ok((decisions, lost))
}

/// See the module.
///
/// # Panics
///
/// If the reader differs from the slow one, or the quota found is not the smallest.
pub fn decisions(Input { lines, thousandths, burst }: Input<'_>) {
    let text = lines.iter().map(Line::text).collect::<Vec<_>>().join("\n");
    let read = text.parse::<DecisionFile>();
    let read = read.map(|file| (file.decisions, file.lost)).map_err(|error| error.line);
    assert_eq!(read, slow(&text), "{text:?}");
    let Ok((decisions, lost)) = read else { return };
    let written: Vec<String> = decisions.iter().map(Decision::to_string).collect();
    let file = DecisionFile { decisions, lost };
    let again: DecisionFile = format!("{}\nlost {lost}\n", written.join("\n")).parse().expect("it was written");
    assert_eq!(again, file);

    let replay = Replay::new(&file);
    let share = Share::new(f64::from(thousandths % 1_001) / 1_000.0).expect("at most 1");
    let family = Family { window: Window::Second, burst: burst.map(|burst| u32::from(burst.max(1))) };
    let most = share.of(replay.calls());
    if let Some(smallest) = replay.smallest(family, share) {
        assert_eq!(smallest.refused, replay.refused(family.quota(smallest.limit)));
        assert!(smallest.refused <= most);
        assert!(smallest.limit == 1 || replay.refused(family.quota(smallest.limit - 1)) > most);
    }
}
