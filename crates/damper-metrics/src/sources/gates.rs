//! Gates that change the question of another one.

use crate::{NamedSource, Readings, Source};
use damper_core::gate::{Classes, Either, PerKey, Shared, Waits};

/// Makes a gate a source that reads the one that it asks.
macro_rules! sources_of_the_gate_behind {
    ($([$($parameter:ident),*] $gate:ty, of $behind:ident;)*) => {
        $(
            /// The gate that is asked.
            impl<$behind: Source, $($parameter),*> Source for $gate {
                fn read(&self, readings: &Readings<'_>) {
                    self.get_ref().read(readings);
                }
            }
        )*
    };
}

sources_of_the_gate_behind! {
    [S, F] Waits<G, S, F>, of G;
    [F] Classes<G, F>, of G;
    [F] PerKey<F, G>, of G;
}

impl<A: Source, B: Source> Source for Either<A, B> {
    fn read(&self, readings: &Readings<'_>) {
        match self {
            Self::First(gate) => gate.read(readings),
            Self::Second(gate) => gate.read(readings),
        }
    }
}

/// Where there is no gate, nothing is read.
impl<G: Source> Source for Option<G> {
    fn read(&self, readings: &Readings<'_>) {
        if let Some(gate) = self {
            gate.read(readings);
        }
    }
}

/// The gate that is shared.
impl<G: Source> Source for Shared<G> {
    fn read(&self, readings: &Readings<'_>) {
        (**self).read(readings);
    }
}

/// The name of the gate that is shared.
impl<G: NamedSource> NamedSource for Shared<G> {
    fn name(&self) -> &str {
        (**self).name()
    }
}
