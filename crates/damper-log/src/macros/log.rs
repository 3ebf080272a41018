//! Limits a call site of `log`.

/// Limits a call of `log`: `log_limited!(Quota::per_second(1), warn!("disk full"))`.
///
/// The first argument is a constant [`Quota`](crate::Quota), of which this call site gets a [`LogLimit`](crate::LogLimit) of its
/// own in a `static`. Or it is a reference to a `LogLimit` of yours: `&DISK`. The second argument is a call of `error!`, `warn!`,
/// `info!`, `debug!` or `trace!` as it would stand alone.
///
/// The message of a record that passes ends with the number of records that this limit suppressed before it, if there were any:
/// `disk full (1204 suppressed)`. If the call has key-value pairs (log's feature `kv`), the message stays as it is and the number
/// is the pair `suppressed`. A record whose level or target is disabled takes no token and is not counted, and its arguments are
/// not computed; nor are those of a suppressed record.
///
/// The message is a literal, as in `format!`.
///
/// # Examples
///
/// ```
/// # extern crate damper_log as logs;
/// use log::warn;
/// use logs::{LogLimit, Quota, log_limited};
///
/// static DISK: LogLimit = LogLimit::new(Quota::per_minute(6).burst(1));
///
/// # let (disk, percent) = ("sda", 97);
/// log_limited!(Quota::per_second(1).burst(5), warn!("{disk} is nearly full: {} %", percent));
/// log_limited!(&DISK, warn!(target: "disk", "{disk} is full"));
/// log_limited!(&DISK, log::error!(disk, percent; "disk broken"));
/// ```
#[cfg(feature = "log")]
#[macro_export]
macro_rules! log_limited {
    (& $limit:expr, $($call:tt)+) => {
        $crate::__log_limited!(@call (& $limit) () $($call)+)
    };
    ($quota:expr, $($call:tt)+) => {{
        static __DAMPER_LOG_LIMIT: $crate::LogLimit = $crate::LogLimit::new($quota);
        $crate::__log_limited!(@call (&__DAMPER_LOG_LIMIT) () $($call)+)
    }};
}

/// Takes a call of `log` apart.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_limited {
    // The path of the macro, which the caller has imported or named.
    (@call $limit:tt ($($path:tt)*) :: $($call:tt)+) => { $crate::__log_limited!(@call $limit ($($path)* ::) $($call)+) };
    (@call $limit:tt ($($path:tt)*) $segment:ident :: $($call:tt)+) => {
        $crate::__log_limited!(@call $limit ($($path)* $segment ::) $($call)+)
    };
    // Its name, which is the level.
    (@call $limit:tt ($($path:tt)*) error!($($call:tt)*) $(,)?) => {
        $crate::__log_limited!(@before $limit ($($path)* error) Error () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) warn!($($call:tt)*) $(,)?) => {
        $crate::__log_limited!(@before $limit ($($path)* warn) Warn () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) info!($($call:tt)*) $(,)?) => {
        $crate::__log_limited!(@before $limit ($($path)* info) Info () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) debug!($($call:tt)*) $(,)?) => {
        $crate::__log_limited!(@before $limit ($($path)* debug) Debug () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) trace!($($call:tt)*) $(,)?) => {
        $crate::__log_limited!(@before $limit ($($path)* trace) Trace () $($call)*)
    };
    (@call $($other:tt)*) => {
        ::core::compile_error!("log_limited! takes a limit and a call of error!, warn!, info!, debug! or trace!")
    };
    // The arguments before the message.
    (@before $limit:tt $macro:tt $level:ident ($($before:tt)*) logger: $logger:expr, $($call:tt)+) => {
        $crate::__log_limited!(@before $limit $macro $level ($($before)* logger: $logger,) $($call)+)
    };
    (@before $limit:tt $macro:tt $level:ident ($($before:tt)*) target: $target:expr, $($call:tt)+) => {
        $crate::__log_limited!(@before $limit $macro $level ($($before)* target: $target,) $($call)+)
    };
    // A message without pairs.
    (@before ($limit:expr) ($($macro:tt)+) $level:ident ($($before:tt)*) $format:literal $(, $($arguments:tt)*)?) => {
        if $crate::__facades::log::log_enabled!($($before)* $crate::__facades::log::Level::$level) {
            if let ::core::option::Option::Some(suppressed) = $crate::LogLimit::check($limit) {
                $($macro)+!(
                    $($before)* "{}{}", ::core::format_args!($format $(, $($arguments)*)?), suppressed
                );
            }
        }
    };
    // Pairs, and the message after a semicolon.
    (@before ($limit:expr) ($($macro:tt)+) $level:ident ($($before:tt)*) $($call:tt)+) => {
        if $crate::__facades::log::log_enabled!($($before)* $crate::__facades::log::Level::$level) {
            if let ::core::option::Option::Some(suppressed) = $crate::LogLimit::check($limit) {
                match suppressed.get() {
                    ::core::option::Option::Some(suppressed) => {
                        $($macro)+!($($before)* suppressed = suppressed, $($call)+);
                    }
                    ::core::option::Option::None => $($macro)+!($($before)* $($call)+),
                }
            }
        }
    };
}
