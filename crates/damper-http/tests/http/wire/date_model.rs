//! HTTP dates, computed slowly: year by year and month by month.
//!
//! A text is a date if it equals one of the forms of that date.

const MONTHS: [(&str, u64); 12] = [
    ("Jan", 31),
    ("Feb", 28),
    ("Mar", 31),
    ("Apr", 30),
    ("May", 31),
    ("Jun", 30),
    ("Jul", 31),
    ("Aug", 31),
    ("Sep", 30),
    ("Oct", 31),
    ("Nov", 30),
    ("Dec", 31),
];

/// The weekdays from the first of January 1970, which was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

const DAY: u64 = 86_400;

/// The last second of the year 9999, in seconds after 1970.
pub(crate) const LAST: u64 = 253_402_300_799;

/// The last second that a year of two digits can name.
pub(crate) const LAST_OF_TWO_DIGITS: u64 = 3_155_759_999;

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_in(year: u64, month: usize) -> u64 {
    MONTHS[month].1 + u64::from(month == 1 && is_leap(year))
}

/// Returns the date this many seconds after 1970, in all forms that a recipient must accept.
pub(crate) fn forms(seconds: u64) -> [String; 4] {
    let (days, second) = (seconds / DAY, seconds % DAY);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (mut year, mut month, mut day) = (1970, 0, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    while day >= days_in(year, month) {
        day -= days_in(year, month);
        month += 1;
    }
    let (day, month) = (day + 1, MONTHS[month].0);
    let time = format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60);
    let short = &weekday[..3];
    [
        format!("{short}, {day:02} {month} {year:04} {time} GMT"),
        format!("{weekday}, {day:02}-{month}-{:02} {time} GMT", year % 100),
        format!("{short} {month} {day:2} {time} {year:04}"),
        // Some servers write a zero in place of the space.
        format!("{short} {month} {day:02} {time} {year:04}"),
    ]
}

/// Returns the seconds after 1970 that a text names, if it is a date.
pub(crate) fn seconds_of(text: &str) -> Option<u64> {
    let text = text.trim_matches([' ', '\t']);
    exactly(text, &[0, 1, 2, 3]).or_else(|| {
        // httpdate ignores the character between the year and the time in the second form.
        let before_time = text.len().checked_sub(" 08:49:37 GMT".len())?;
        let (date, time) = text.split_at_checked(before_time)?;
        exactly(&format!("{date} {}", time.get(1..)?), &[1])
    })
}

/// Returns the seconds whose date equals the text in one of the allowed forms.
fn exactly(text: &str, allowed: &[usize]) -> Option<u64> {
    let month = MONTHS.iter().position(|(name, _)| text.contains(name))?;
    let numbers: Vec<u64> =
        text.split(|other: char| !other.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
    let &[day, a, b, c, d] = numbers.as_slice() else { return None };
    let candidates = [
        // The year follows the day, with four digits or with two, or it is at the end.
        seconds_at(a, month, day, [b, c, d]),
        seconds_at(if a < 70 { a + 2_000 } else { a + 1_900 }, month, day, [b, c, d]),
        seconds_at(d, month, day, [a, b, c]),
    ];
    candidates.into_iter().flatten().find(|&seconds| {
        let is_recent = seconds <= LAST_OF_TWO_DIGITS;
        allowed.iter().any(|&form| (form != 1 || is_recent) && forms(seconds)[form] == text)
    })
}

fn seconds_at(year: u64, month: usize, day: u64, [hour, minute, second]: [u64; 3]) -> Option<u64> {
    if !(1970..=9999).contains(&year) || day == 0 || day > 31 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (0..month).map(|month| days_in(year, month)).sum();
    Some((years + months + day - 1) * DAY + hour * 3_600 + minute * 60 + second)
}

/// Returns the seconds that a `Retry-After` requests in a response with this date.
pub(crate) fn retry_after(value: &str, date: u64) -> Option<u64> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let add = |sum: u64, byte| sum.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
        return Some(value.bytes().fold(0, add));
    }
    seconds_of(value).map(|at| at.saturating_sub(date))
}
