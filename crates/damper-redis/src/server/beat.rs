//! The server's reply to a beat.

use core::fmt;
use redis::Value;

/// The number of processes that share a limit, and the time of the server's last loss of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) processes: u32,
    /// The marker of the slot: the server's time of its last loss. `None` if there is no marker yet.
    pub(crate) marker: Option<u64>,
}

/// The error of a malformed reply to a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeatError;

impl Beat {
    /// Parses the reply to a beat.
    pub(super) fn parse(value: Value) -> Result<Self, BeatError> {
        let Value::Array(values) = value else { return Err(BeatError) };
        let [Value::Int(processes), marker] = values.as_slice() else { return Err(BeatError) };
        let processes = u32::try_from(*processes).map_err(|_| BeatError)?;
        let marker = match marker {
            Value::BulkString(text) => core::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            Value::Nil => None,
            _ => return Err(BeatError),
        };
        Ok(Self { processes, marker })
    }
}

impl fmt::Display for BeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reply to a heartbeat must be a number of processes and a marker")
    }
}

impl core::error::Error for BeatError {}

#[cfg(test)]
mod tests {
    use super::{Beat, BeatError};
    use redis::Value;

    #[test]
    fn beats_are_read_and_garbage_is_not() {
        let marker = |text: &str| Value::BulkString(text.into());
        let read = |values| Beat::parse(Value::Array(values));
        assert_eq!(read(vec![Value::Int(3), marker("17")]), Ok(Beat { processes: 3, marker: Some(17) }));
        assert_eq!(read(vec![Value::Int(3), Value::Nil]), Ok(Beat { processes: 3, marker: None }));
        for garbage in [vec![], vec![Value::Int(1)], vec![Value::Int(-1), Value::Nil], vec![Value::Nil, Value::Nil]] {
            assert_eq!(read(garbage), Err(BeatError));
        }
        assert_eq!(Beat::parse(Value::Okay), Err(BeatError));
    }
}
