//! The promise `burst + rate · t`, held against a log over every interval.

use crate::line::Admission;

/// A quota per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) burst: u64,
    pub(crate) rate: u64,
}

/// The log of some admissions, held against the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The tokens by which the worst interval exceeds the promise.
    pub(crate) excess: u64,
    /// The decisions without a date, because their thread stood still in the middle.
    pub(crate) undated: u64,
}

/// A check that took longer than this has no date: its deadline is 5 ms.
const UNDATED: u64 = 50_000;

impl Envelope {
    /// Looks at every interval, in one pass over the admissions in order.
    ///
    /// The decision of a check fell between its two readings of the clock. An interval therefore begins before the check
    /// and ends after it, and is a microsecond longer, the tick of the server's clock.
    pub(crate) fn verdict(&self, admissions: impl Iterator<Item = Admission>) -> Verdict {
        let (mut dated, undated): (Vec<_>, Vec<_>) = admissions.partition(|one| one.ended - one.begun <= UNDATED);
        dated.sort_unstable_by_key(|one| one.ended);
        // The earliest begin of a check and all that ended after it.
        let mut earliest: Vec<i128> = dated.iter().map(|one| i128::from(one.begun)).collect();
        for at in (1..earliest.len()).rev() {
            earliest[at - 1] = earliest[at - 1].min(earliest[at]);
        }
        // In millionths of a token. `open`: the most that an interval can have left over when it begins here or before.
        let (rate, mut open, mut most) = (i128::from(self.rate), i128::MIN, 0);
        for (number, (admission, from)) in (0_i128..).zip(dated.iter().zip(&earliest)) {
            open = open.max(rate * from - number * 1_000_000);
            most = most.max((number + 1) * 1_000_000 - rate * (i128::from(admission.ended) + 1) + open);
        }
        let above = (most - i128::from(self.burst) * 1_000_000).max(0);
        Verdict { excess: (above as u128).div_ceil(1_000_000) as u64, undated: undated.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Envelope, Verdict};
    use crate::line::{Admission, Source};

    const ENVELOPE: Envelope = Envelope { burst: 5, rate: 1_000 };

    fn at(begun: u64, ended: u64) -> Admission {
        Admission { begun, ended, source: Source::Lease }
    }

    /// A full bucket that is used up at once, and then as it refills.
    fn greedy() -> Vec<Admission> {
        let burst = (0..5).map(|_| at(1_000_000, 1_000_000));
        burst.chain((1..200).map(|number| at(1_000_000 + number * 1_000, 1_000_000 + number * 1_000))).collect()
    }

    #[test]
    fn exact_log_is_within_and_one_more_is_not() {
        assert_eq!(ENVELOPE.verdict(greedy().into_iter()), Verdict { excess: 0, undated: 0 });
        assert_eq!(ENVELOPE.verdict(std::iter::empty()), Verdict { excess: 0, undated: 0 });
        for place in 0..199 {
            let one_more = at(1_000_500 + place * 1_000, 1_000_500 + place * 1_000);
            let verdict = ENVELOPE.verdict(greedy().into_iter().chain([one_more]));
            assert_eq!(verdict, Verdict { excess: 1, undated: 0 }, "in millisecond {place}");
        }
    }

    #[test]
    fn decision_may_have_fallen_anywhere_in_its_check() {
        let late = |ended| ENVELOPE.verdict(greedy().into_iter().chain([at(1_050_000, ended)]));
        assert_eq!(late(1_050_001).excess, 1);
        assert_eq!(late(2_050_001), Verdict { excess: 0, undated: 1 });
    }
}
