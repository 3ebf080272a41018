//! The layers of a server before its handler.

/// The layers of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// None: it accepts every request, and finishes it.
    Nothing,
    /// A deadline layer: work is ended at its deadline.
    Deadlines,
    /// The same deadline layer, and admission below it.
    Admission,
}

impl Protection {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Deadlines, Self::Admission];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Deadlines => "deadlines",
            Self::Admission => "admission",
        }
    }

    /// All of them, in an order that changes from round to round.
    pub(crate) fn in_turn(round: u32) -> [Self; 3] {
        let mut order = Self::ALL;
        order.rotate_left((round % 3) as usize);
        order
    }
}
