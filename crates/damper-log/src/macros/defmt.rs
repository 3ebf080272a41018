//! Limits a call site of `defmt`.

use defmt::{Format, Formatter};

/// Limits a call of `defmt`: `defmt_limited!(&BUS_ERRORS, warn!("bus error {}", code))`.
///
/// The first argument is a reference to a [`LogLimit`](crate::LogLimit), which firmware creates on its own clock. With the feature
/// `std` it may also be a constant [`Quota`](crate::Quota). The second argument is a call of `error!`, `warn!`, `info!`, `debug!` or
/// `trace!` as it would stand alone.
///
/// The message of a frame that passes ends with the number of frames that this limit suppressed before it, if there were any:
/// `bus error 3 (1204 suppressed)`. The arguments of a suppressed frame are not computed. `DEFMT_LOG` chooses the levels when the
/// program is built. A call of a level that it leaves out still takes a token.
///
/// # Examples
///
/// ```no_run
/// # extern crate damper_log as logs;
/// use damper_core::{CoarseClock, RateLimiter32};
/// use logs::{LogLimit, Quota, defmt_limited};
///
/// static TIME: CoarseClock = CoarseClock::new(); // or a timer of yours
/// static BUS_ERRORS: LogLimit<RateLimiter32<&CoarseClock>> =
///     LogLimit::with_limiter(match RateLimiter32::new(Quota::per_second(1), &TIME) {
///         Ok(limiter) => limiter,
///         Err(_) => panic!("the burst does not fit 32 bits"), // a compile error
///     });
///
/// # let code: u8 = 3;
/// defmt_limited!(&BUS_ERRORS, defmt::warn!("bus error {=u8}", code));
/// defmt_limited!(&BUS_ERRORS, defmt::error!("bus dead"));
/// ```
#[cfg(feature = "defmt")]
#[macro_export]
macro_rules! defmt_limited {
    (& $limit:expr, $($call:tt)+) => {
        $crate::__defmt_limited!(@call (& $limit) () $($call)+)
    };
    ($quota:expr, $($call:tt)+) => {{
        static __DAMPER_LOG_LIMIT: $crate::LogLimit = $crate::LogLimit::new($quota);
        $crate::__defmt_limited!(@call (&__DAMPER_LOG_LIMIT) () $($call)+)
    }};
}

/// Takes a call of `defmt` apart.
#[doc(hidden)]
#[macro_export]
macro_rules! __defmt_limited {
    // The path of the macro, which the caller has imported or named.
    (@call $limit:tt ($($path:tt)*) :: $($call:tt)+) => { $crate::__defmt_limited!(@call $limit ($($path)* ::) $($call)+) };
    (@call $limit:tt ($($path:tt)*) $segment:ident :: $($call:tt)+) => {
        $crate::__defmt_limited!(@call $limit ($($path)* $segment ::) $($call)+)
    };
    // defmt's own macros name its crate `defmt`, so the caller has it under this name.
    (@call ($limit:expr) ($($path:tt)*) $macro:ident!($format:tt $(, $($arguments:tt)*)?) $(,)?) => {
        if let ::core::option::Option::Some(suppressed) = $crate::LogLimit::check($limit) {
            $($path)* $macro!(
                "{}{}",
                $crate::__facades::DefmtMessage(|f: ::defmt::Formatter<'_>| {
                    ::defmt::write!(f, $format $(, $($arguments)*)?);
                }),
                suppressed
            );
        }
    };
    (@call $($other:tt)*) => {
        ::core::compile_error!("defmt_limited! takes a limit and a call of error!, warn!, info!, debug! or trace!")
    };
}

/// A message and its arguments as one value, so that the count can follow it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DefmtMessage<F>(pub F);

impl<F: Fn(Formatter<'_>)> Format for DefmtMessage<F> {
    fn format(&self, f: Formatter<'_>) {
        (self.0)(f);
    }
}
