//! The trouble in a schedule.

/// The trouble in a schedule beside messages that are lost, late, duplicated and reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Pauses and crashes of processes.
    Processes,
    /// The same, and the server loses all that it has stored.
    Loss,
    /// The same as the first, and the server's clock steps forward and back.
    Steps,
}
