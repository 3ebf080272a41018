//! Limits a call site of `tracing`.

/// Limits a call of `tracing`: `tracing_limited!(Quota::per_second(1), warn!("disk full"))`.
///
/// The first argument is a constant [`Quota`](crate::Quota), of which this call site gets a [`LogLimit`](crate::LogLimit) of its
/// own in a `static`. Or it is a reference to a `LogLimit` of yours: `&DISK`. The second argument is a call of `error!`, `warn!`,
/// `info!`, `debug!` or `trace!` as it would stand alone.
///
/// An event that passes has the field `suppressed`, the number of events that this limit suppressed before it. The field is
/// left out if there were none. An event that no subscriber wants takes no token and is not counted, and the values of its fields
/// are not computed; nor are those of a suppressed event.
///
/// The macro asks [`enabled!`](tracing::enabled). For a filter of a single layer (`with_filter` of tracing-subscriber) that says yes, even if
/// no layer wants the event, where the answer is not the same for all subscribers of the process or depends on the span. The event takes a
/// token then.
///
/// # Examples
///
/// ```
/// # extern crate damper_log as logs;
/// use logs::{Quota, tracing_limited};
/// use tracing::warn;
///
/// # let (disk, percent) = ("sda", 97);
/// // WARN disk nearly full suppressed=1204 disk="sda" percent=97
/// tracing_limited!(Quota::per_second(1).burst(5), warn!(disk, percent, "disk nearly full"));
/// ```
///
/// Two call sites that share a limit:
///
/// ```
/// # extern crate damper_log as logs;
/// use logs::{LogLimit, Quota, tracing_limited};
///
/// static DISK: LogLimit = LogLimit::new(Quota::per_minute(6).burst(1));
///
/// # let (is_full, error) = (true, "EIO");
/// if is_full {
///     tracing_limited!(&DISK, tracing::warn!(target: "disk", "disk full"));
/// } else {
///     tracing_limited!(&DISK, tracing::error!(target: "disk", %error, "disk broken"));
/// }
/// ```
///
/// Another macro is refused:
///
/// ```compile_fail
/// # extern crate damper_log as logs;
/// use logs::{Quota, tracing_limited};
///
/// tracing_limited!(Quota::per_second(1), println!("disk full"));
/// ```
#[cfg(feature = "tracing")]
#[macro_export]
macro_rules! tracing_limited {
    (& $limit:expr, $($call:tt)+) => {
        $crate::__tracing_limited!(@call (& $limit) () $($call)+)
    };
    ($quota:expr, $($call:tt)+) => {{
        static __DAMPER_LOG_LIMIT: $crate::LogLimit = $crate::LogLimit::new($quota);
        $crate::__tracing_limited!(@call (&__DAMPER_LOG_LIMIT) () $($call)+)
    }};
}

/// Takes a call of `tracing` apart.
#[doc(hidden)]
#[macro_export]
macro_rules! __tracing_limited {
    // The path of the macro, which the caller has imported or named.
    (@call $limit:tt ($($path:tt)*) :: $($call:tt)+) => { $crate::__tracing_limited!(@call $limit ($($path)* ::) $($call)+) };
    (@call $limit:tt ($($path:tt)*) $segment:ident :: $($call:tt)+) => {
        $crate::__tracing_limited!(@call $limit ($($path)* $segment ::) $($call)+)
    };
    // Its name, which is the level.
    (@call $limit:tt ($($path:tt)*) error!($($call:tt)*) $(,)?) => {
        $crate::__tracing_limited!(@before $limit ($($path)* error) ERROR () () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) warn!($($call:tt)*) $(,)?) => {
        $crate::__tracing_limited!(@before $limit ($($path)* warn) WARN () () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) info!($($call:tt)*) $(,)?) => {
        $crate::__tracing_limited!(@before $limit ($($path)* info) INFO () () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) debug!($($call:tt)*) $(,)?) => {
        $crate::__tracing_limited!(@before $limit ($($path)* debug) DEBUG () () $($call)*)
    };
    (@call $limit:tt ($($path:tt)*) trace!($($call:tt)*) $(,)?) => {
        $crate::__tracing_limited!(@before $limit ($($path)* trace) TRACE () () $($call)*)
    };
    (@call $($other:tt)*) => {
        ::core::compile_error!("tracing_limited! takes a limit and a call of error!, warn!, info!, debug! or trace!")
    };
    // The arguments before the fields. `enabled!` takes the target only.
    (@before $limit:tt $macro:tt $level:ident ($($before:tt)*) $target:tt name: $name:expr, $($call:tt)*) => {
        $crate::__tracing_limited!(@before $limit $macro $level ($($before)* name: $name,) $target $($call)*)
    };
    (@before $limit:tt $macro:tt $level:ident ($($before:tt)*) $earlier:tt target: $target:expr, $($call:tt)*) => {
        $crate::__tracing_limited!(@before $limit $macro $level ($($before)* target: $target,) (target: $target,) $($call)*)
    };
    (@before $limit:tt $macro:tt $level:ident ($($before:tt)*) $target:tt parent: $parent:expr, $($call:tt)*) => {
        $crate::__tracing_limited!(@before $limit $macro $level ($($before)* parent: $parent,) $target $($call)*)
    };
    // Fields in braces, and the message after them.
    (@before $limit:tt $macro:tt $level:ident $before:tt $target:tt { $($fields:tt)* }, $($message:tt)+) => {
        $crate::__tracing_limited!(@event $limit $macro $level $before $target count ({ suppressed = count, $($fields)* }, $($message)+))
    };
    (@before $limit:tt $macro:tt $level:ident $before:tt $target:tt $($call:tt)+) => {
        $crate::__tracing_limited!(@event $limit $macro $level $before $target count (suppressed = count, $($call)+))
    };
    (@event ($limit:expr) ($($macro:tt)+) $level:ident ($($before:tt)*) ($($target:tt)*) $count:ident ($($event:tt)+)) => {
        if $crate::__facades::tracing::enabled!($($target)* $crate::__facades::tracing::Level::$level) {
            if let ::core::option::Option::Some(passed) = $crate::LogLimit::check($limit) {
                let $count = passed.get();
                $($macro)+!($($before)* $($event)+);
            }
        }
    };
}
