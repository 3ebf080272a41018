//! The report of a contest: a line of a table, or an object of JSON.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;

/// The names of the columns that a [`Row`] is displayed in.
pub(crate) const HEADER: &str = "name                              damper  peer                        ratio   bar";

/// The result of a contest.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The unit of its numbers.
    pub(crate) unit: &'static str,
    pub(crate) damper: f64,
    pub(crate) compared: Option<Compared>,
}

#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) peer: &'static str,
    pub(crate) peer_value: f64,
    pub(crate) ratio: f64,
    pub(crate) bar: Option<f64>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, damper, compared } = self;
        write!(f, "{name:<28} {damper:>8.2} {unit}")?;
        if let Some(Compared { peer, peer_value, ratio, bar }) = compared {
            write!(f, "  {peer:<15} {peer_value:>7.2} {unit}  {ratio:>5.2}")?;
            if let Some(bar) = bar {
                let missed = if ratio > bar { "  missed" } else { "" };
                write!(f, "  {bar:>4.2}{missed}")?;
            }
        }
        Ok(())
    }
}

/// Every row has the same keys; they are null where there is no peer, and the bar where none was set.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let compared = self.compared.as_ref();
        let mut object = serializer.serialize_struct("Row", 7)?;
        object.serialize_field("name", self.name)?;
        object.serialize_field("unit", self.unit)?;
        object.serialize_field("damper", &self.damper)?;
        object.serialize_field("peer", &compared.map(|compared| compared.peer))?;
        object.serialize_field("peer_value", &compared.map(|compared| compared.peer_value))?;
        object.serialize_field("ratio", &compared.map(|compared| compared.ratio))?;
        object.serialize_field("bar", &compared.and_then(|compared| compared.bar))?;
        object.end()
    }
}
