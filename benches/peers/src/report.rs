//! The report of a contest: a line of a table, or an object of JSON.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;

/// The names of the columns that a [`Row`] is displayed in.
pub(crate) const HEADER: &str = concat!(
    "name                           damper     quartiles          ",
    "peer                  value      ratio  quartiles      bar",
);

/// The result of a contest.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The unit of its numbers.
    pub(crate) unit: &'static str,
    pub(crate) damper: f64,
    /// None where it was measured once.
    pub(crate) quartiles: Option<Quartiles>,
    pub(crate) compared: Option<Compared>,
}

#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) peer: &'static str,
    pub(crate) peer_value: f64,
    pub(crate) ratio: f64,
    /// None where it was measured once.
    pub(crate) ratio_quartiles: Option<Quartiles>,
    pub(crate) bar: Option<f64>,
}

/// The values between which the middle half of the rounds lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quartiles {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A list of two numbers, the lower one first.
impl Serialize for Quartiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.low, self.high].serialize(serializer)
    }
}

/// The quartiles in a column of their own.
fn spread(quartiles: Option<Quartiles>) -> String {
    quartiles.map(|Quartiles { low, high }| format!("{low:.2} to {high:.2}")).unwrap_or_default()
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, damper, quartiles, compared } = self;
        write!(f, "{name:<28} {damper:>8.2} {unit}  {:<17}", spread(*quartiles))?;
        if let Some(Compared { peer, peer_value, ratio, ratio_quartiles, bar }) = compared {
            write!(f, "  {peer:<17} {peer_value:>7.2} {unit}  {ratio:>5.2}  {:<12}", spread(*ratio_quartiles))?;
            if let Some(bar) = bar {
                let missed = if ratio > bar { "  missed" } else { "" };
                write!(f, "  {bar:>4.2}{missed}")?;
            }
        }
        Ok(())
    }
}

/// Every row has the same keys.
///
/// Those of a peer are null where there is none, the bar is null where none was set, and quartiles are null where
/// something was measured once.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let compared = self.compared.as_ref();
        let mut object = serializer.serialize_struct("Row", 9)?;
        object.serialize_field("name", self.name)?;
        object.serialize_field("unit", self.unit)?;
        object.serialize_field("damper", &self.damper)?;
        object.serialize_field("damper_quartiles", &self.quartiles)?;
        object.serialize_field("peer", &compared.map(|compared| compared.peer))?;
        object.serialize_field("peer_value", &compared.map(|compared| compared.peer_value))?;
        object.serialize_field("ratio", &compared.map(|compared| compared.ratio))?;
        object.serialize_field("ratio_quartiles", &compared.and_then(|compared| compared.ratio_quartiles))?;
        object.serialize_field("bar", &compared.and_then(|compared| compared.bar))?;
        object.end()
    }
}
