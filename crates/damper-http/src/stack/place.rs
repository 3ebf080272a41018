//! The places of a client's stack, as types.

use super::StackPart;

/// A place of a client's stack.
///
/// It is a type, so that a call that is made does not carry the name of its part.
pub trait Place {
    /// The name of the part in this place.
    const PART: StackPart;
}

macro_rules! places {
    ($($place:ident)*) => {
        $(
            /// The place of the part of this name.
            #[derive(Clone, Copy, Debug)]
            pub struct $place;

            impl Place for $place {
                const PART: StackPart = StackPart::$place;
            }
        )*
    };
}

places! { Deadline Breaker Retry Pacing Hedge Throttle Limit Concurrency AttemptTimeout }
