//! A layer of `tracing` with a limit per call site.

// | file | idea |
// |---|---|
// | `limited_layer` | `LimitedLayer`: which events reach the inner layer, and when reports do |
// | `builder` | `LimitedLayerBuilder`: its settings |
// | `log_reports` | `LogReports`: reports on demand, from outside of any event |
// | `sites` | the table of limits |
// | `site` | one limit, and what it suppressed |
// | `key_text` | the text by which the events of a call site are told apart |
// | `report` | the events that the layer makes itself |

mod builder;
mod key_text;
mod limited_layer;
mod log_reports;
mod report;
mod site;
mod sites;

pub use builder::LimitedLayerBuilder;
pub use limited_layer::LimitedLayer;
pub use log_reports::LogReports;
