//! The task that reports this process to the server, and notices that servers of a cluster are back.

use super::beat::Beat;
use super::{BEAT_DEADLINE, ConnectError, random, random_between};
use crate::limiter::{Fleet, RedisEvent};
use crate::script::{Command, Keys};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The range of the random time between two beats, in ms. It keeps the beats of a fleet apart.
const PERIOD: [u64; 2] = [800, 1_200];

/// The range of the time between two beats while the server does not answer, in ms.
///
/// A reply that is too late for a check counts as none. The time is short so that a process without traffic also notices a
/// recovered server.
const PERIOD_WHILE_SILENT: [u64; 2] = [100, 300];

/// How long a process counts after its last beat, in ms.
const LENGTH: u64 = 3_500;

/// How long all beats must report fewer processes before the number falls.
///
/// A server that has lost its memory counts the processes anew, and those with slow round trips come late.
const FALL: Duration = Duration::from_secs(5);

/// Reports to the server that this process shares a limit, and learns how many processes do.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    keys: Keys,
    member: String,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Heartbeat {
    /// Creates the heartbeat of the limit whose set of processes is under these keys.
    pub(crate) fn new(keys: Keys) -> Self {
        Self { keys, member: format!("{:016x}", random()), task: Mutex::default() }
    }

    /// Returns the keys of the set of processes.
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Starts the task unless it runs. It may have ended with its runtime.
    pub(crate) fn ensure(&self, fleet: &Arc<Fleet>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(runtime.spawn(beat_for_ever(Arc::downgrade(fleet))));
        }
    }

    /// Tries the scripts on the server, and learns how many processes share the limit.
    ///
    /// `look` is a command on the keys with these names.
    ///
    /// # Errors
    ///
    /// The server refuses a script.
    pub(crate) async fn begin(
        &self,
        fleet: &Fleet,
        names: &[String],
        look: &Command,
        until: Instant,
    ) -> Result<(), ConnectError> {
        if let Some(beat) = fleet.server.try_scripts(&self.keys, names, look, &self.member, LENGTH, until).await? {
            learn(fleet, &mut BeatHistory::default(), beat);
        }
        Ok(())
    }

    /// Asks whether a silent shard of a cluster answers again, for which no call may come.
    async fn probe(&self, fleet: &Fleet, shard: usize) {
        let slot = fleet.server.slot(shard);
        if fleet.server.shard(self.keys.slot()).0 == shard {
            // The beats ask that shard.
            return;
        }
        // A beat that leaves changes nothing, because this process is in no set of that slot.
        let tag = fleet.tags.tag(slot).to_string();
        let keys = Keys::new(&fleet.tags, &fleet.name, tag.as_bytes());
        // The next beat waits for this one, so the wait is short.
        let deadline = fleet.server.deadline().min(BEAT_DEADLINE);
        let (_, in_time) = fleet.server.beat(&keys, &self.member, 0, deadline).await;
        fleet.note(slot, in_time.as_ref().err());
    }

    /// Stops the task, and reports to the server that this process leaves.
    pub(crate) async fn leave(&self, fleet: &Arc<Fleet>) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
        // If the beat is lost, the server forgets the process after a few seconds.
        _ = fleet.server.beat(&self.keys, &self.member, 0, fleet.server.deadline()).await;
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Sends beats until the limiter is dropped.
async fn beat_for_ever(fleet: Weak<Fleet>) {
    let (mut history, mut probed) = (BeatHistory::default(), 0);
    loop {
        let begun = Instant::now();
        let [least, most] = {
            let Some(fleet) = fleet.upgrade() else { return };
            let heartbeat = &fleet.heartbeat;
            let deadline = fleet.server.deadline();
            let (beat, in_time) = fleet.server.beat(&heartbeat.keys, &heartbeat.member, LENGTH, deadline).await;
            fleet.note(heartbeat.keys.slot(), in_time.as_ref().err());
            if let Some(beat) = beat {
                learn(&fleet, &mut history, beat);
            }
            if let Some(shard) = fleet.authority.next_silent(probed) {
                probed = shard;
                heartbeat.probe(&fleet, shard).await;
            }
            if in_time.is_ok() && !fleet.authority.is_policy() { PERIOD } else { PERIOD_WHILE_SILENT }
        };
        // A beat may wait for its reply for longer than the time between two beats.
        let next = begun + Duration::from_millis(random_between(least, most));
        tokio::time::sleep_until(next.into()).await;
    }
}

/// Applies the reply to a beat, and notifies the listener of changes.
fn learn(fleet: &Fleet, history: &mut BeatHistory, beat: Beat) {
    if history.is_lost(beat.marker) {
        fleet.counters.losses.add(1);
        fleet.tell(&RedisEvent::Loss);
    }
    let processes = history.processes(beat.processes, Instant::now());
    // ORDERING: Relaxed. The number publishes nothing.
    if fleet.processes.swap(processes, Ordering::Relaxed) != processes {
        fleet.tell(&RedisEvent::Processes { processes });
    }
}

/// The numbers and the marker in the replies to the last beats.
#[derive(Debug, Default)]
struct BeatHistory {
    marker: Option<u64>,
    /// The number of processes in force.
    processes: u32,
    /// If the last beats reported fewer: when the first and the last of them came, and the most.
    fewer: Option<([Instant; 2], u32)>,
}

impl BeatHistory {
    /// Returns whether the marker has changed, which means a loss.
    fn is_lost(&mut self, marker: Option<u64>) -> bool {
        let Some(marker) = marker else { return false };
        self.marker.replace(marker).is_some_and(|before| before != marker)
    }

    /// Returns the number of processes in force after a beat that counted so many.
    ///
    /// It rises at once, and falls to the largest number of the last beats when all of them have reported fewer for a while.
    /// Beats before a pause of that length say nothing about those after it.
    fn processes(&mut self, counted: u32, now: Instant) -> u32 {
        let lasted = |since| now.saturating_duration_since(since) >= FALL;
        let fewer = self.fewer.filter(|&([_, last], _)| !lasted(last));
        let (since, most) = fewer.map_or((now, counted), |([since, _], most)| (since, most.max(counted)));
        let is_sure = counted >= self.processes || lasted(since);
        (self.processes, self.fewer) =
            if is_sure { (most, None) } else { (self.processes, Some(([since, now], most))) };
        self.processes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{BeatHistory, FALL};
    use core::time::Duration;
    use std::time::Instant;

    /// While beats are late, the next one follows in 100 to 300 ms.
    #[test]
    fn number_of_processes_rises_at_once_and_falls_after_five_seconds_of_fast_or_slow_beats() {
        for period in [Duration::from_millis(100), Duration::from_secs(1)] {
            let (mut history, mut now) = (BeatHistory::default(), Instant::now());
            assert_eq!((history.processes(0, now), history.processes(4, now)), (1, 4));
            let first = now + period;
            while now + period < first + FALL {
                now += period;
                assert_eq!(history.processes(1 + u32::from(now == first), now), 4);
            }
            assert_eq!(history.processes(1, now + period), 2, "the most of the last beats");
            assert_eq!(history.processes(5, now + period), 5);
        }
    }

    /// The server may have lost its memory while it was gone.
    #[test]
    fn number_of_processes_does_not_fall_by_the_first_beat_after_a_pause() {
        let (mut history, now) = (BeatHistory::default(), Instant::now());
        assert_eq!(history.processes(4, now), 4);
        let later = now + 10 * FALL;
        assert_eq!((history.processes(1, later), history.processes(4, later)), (4, 4));
        assert_eq!(history.processes(1, later + FALL), 4, "a beat in between reported as many");
        assert_eq!(history.processes(1, later + 2 * FALL), 4, "no beat in between");
    }

    #[test]
    fn new_marker_is_a_loss_and_the_first_is_none() {
        let mut history = BeatHistory::default();
        assert!(!history.is_lost(None));
        assert!(!history.is_lost(Some(7)));
        assert!(!history.is_lost(Some(7)));
        assert!(!history.is_lost(None), "until it is set again");
        assert!(history.is_lost(Some(9)));
        assert!(!history.is_lost(Some(9)));
    }
}
