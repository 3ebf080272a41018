//! Gates that change the question of another one, and primitives with a log or a candidate.

use crate::{NamedSource, Readings, Source};
use damper_core::decision_log::Logged;
use damper_core::gate::{Classes, Either, PerKey, Shared, Waits};
use damper_core::shadow::Shadowed;

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

/// The limiter, without its log.
impl<L: Source, G> Source for Logged<L, G> {
    fn read(&self, readings: &Readings<'_>) {
        self.limiter().read(readings);
    }
}

/// Reads the primitive in force, and the refusals of both.
impl<T: Source, S> Source for Shadowed<T, S> {
    fn read(&self, readings: &Readings<'_>) {
        self.in_force().read(readings);
        readings.record_shadow(self.report());
    }
}

/// The name of the primitive in force.
impl<T: NamedSource, S> NamedSource for Shadowed<T, S> {
    fn name(&self) -> &str {
        self.in_force().name()
    }
}
