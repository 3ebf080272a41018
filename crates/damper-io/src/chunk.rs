//! The size of a chunk: how many bytes a connection takes of a limit at once.

use core::time::Duration;
use damper_core::Quota;
use damper_core::internal::deepest_debt;

/// The time in which a limit brings a chunk, if that is not small.
///
/// Timers tick in milliseconds. Chunks of two of them wake all connections of a limit together 500 times a second, whatever
/// their number, and a chunk waits for its turn for two milliseconds of each connection before it.
const CHUNK_TIME: Duration = Duration::from_millis(2);

/// The size below which a chunk is small: the payload of a packet.
const PACKET: u32 = 1_460;

/// The longest time in which a limit brings a small chunk.
const SMALL_CHUNK_TIME: Duration = Duration::from_millis(20);

/// The wait beyond which chunks shrink, so that a crowd does not wait much longer.
const LONGEST_ROUND: Duration = Duration::from_millis(250);

/// The part of the room in a limit's line that a chunk takes at most.
///
/// So the line has room for a connection more, however many wait.
const PARTS_OF_ROOM: u64 = 16;

/// Returns the most bytes that a connection takes of a limit at once.
///
/// It depends only on the quota and on `debt`, the bytes for which others wait. So all connections of a limit take chunks of the
/// same size, whatever the sizes of their buffers, and the order of the line makes their rates equal.
pub(crate) fn most_at_once(quota: &Quota, debt: u32) -> u32 {
    if quota.is_unlimited() {
        return u32::MAX;
    }
    let (burst, debt) = (u64::from(quota.burst_size()), u64::from(debt));
    let small = u64::from(PACKET).min(brought(quota, SMALL_CHUNK_TIME));
    let mut chunk = brought(quota, CHUNK_TIME).max(small).min(burst);
    if debt > 0 {
        let deepest = deepest_debt(quota) - burst;
        let round = brought(quota, LONGEST_ROUND).min(deepest / 4).max(1);
        if debt > round {
            chunk = chunk * round / debt;
        }
        // Beyond `max_debt` the limiter refuses to wait, and refused connections have no order.
        chunk = chunk.min(deepest.saturating_sub(debt) / PARTS_OF_ROOM);
    }
    // At most the burst, which is a `u32`; or 1, of which the limiter says that it exceeds a burst of 0.
    chunk.max(1) as u32
}

/// Returns how many tokens a quota brings in `time`, rounded down and at most 2^32.
fn brought(quota: &Quota, time: Duration) -> u64 {
    let tokens = u128::from(quota.limit()) * time.as_nanos();
    let window = quota.window().as_nanos().max(1);
    u64::try_from(tokens / window).unwrap_or(u64::MAX).min(1 << 32)
}

#[cfg(test)]
mod tests {
    use super::most_at_once;
    use core::time::Duration;
    use damper_core::Quota;

    #[test]
    fn chunks_suit_the_rate() {
        for (quota, chunk) in [
            (Quota::per_second(10_000_000), 20_000),
            (Quota::per_second(1_000_000_000), 2_000_000),
            (Quota::per_second(730_000), 1_460),
            (Quota::per_second(100_000), 1_460),
            (Quota::per_second(10_000), 200),
            (Quota::per_second(1), 1),
            (Quota::every(Duration::from_secs(5)).unwrap(), 1),
            (Quota::per_second(10_000_000).burst(1_000), 1_000),
            (Quota::per_second(10_000_000).burst(0), 1),
            (Quota::per_second(0).burst(100), 1),
            (Quota::per(u32::MAX, Duration::from_nanos(1)).unwrap(), u32::MAX),
            (Quota::UNLIMITED, u32::MAX),
        ] {
            assert_eq!(most_at_once(&quota, 0), chunk, "{quota}");
        }
    }

    #[test]
    fn chunks_shrink_while_a_crowd_waits() {
        let quota = Quota::per_second(10_000_000);
        assert_eq!(most_at_once(&quota, 2_500_000), 20_000); // a quarter of a second
        assert_eq!(most_at_once(&quota, 5_000_000), 10_000);
        assert_eq!(most_at_once(&quota, u32::MAX), 1);
        let shallow = Quota::per_second(10_000_000).max_debt(320_000);
        assert_eq!(most_at_once(&shallow, 0), 20_000);
        assert_eq!(most_at_once(&shallow, 160_000), 10_000);
        assert_eq!(most_at_once(&shallow, 320_000), 1);
        assert_eq!(most_at_once(&Quota::per_second(10_000).max_debt(0), 0), 200);
    }
}
