//! Short stories of leases that are kept too long, which steps chosen one by one would seldom tell.

use super::{GLUTTON, HOLDERS, LEASE, PACE, World};
use crate::trouble::Trouble;

impl World<'_> {
    /// The time until some lease ends within `longest` µs, or hardly before or after that.
    pub(super) fn until_an_end(&mut self, longest: u64) -> u64 {
        let end = (self.server.now() + self.random.below(longest)).next_multiple_of(LEASE / 8);
        let early = self.random.one_of(&[0, 0, 1_000, 3_000]);
        (end - self.server.now() + self.random.one_of(&[0, 1, 20_000])).saturating_sub(self.random.below(early + 1))
    }

    /// Checks until one is refused, or so many are made.
    pub fn drain(&mut self, who: usize, most: u32) -> Result<(), String> {
        for _ in 0..most {
            if !self.processes[who].is_running() || !self.check(who, 1)? {
                break;
            }
        }
        Ok(())
    }

    /// A short story in which a process keeps leased tokens, and others then take what they can get.
    ///
    /// Steps that are chosen one by one would seldom tell it.
    pub(super) fn outlive(&mut self, plot: u64) -> Result<(), String> {
        let who = self.random.below(HOLDERS as u64) as usize;
        let other = (who + 1) % HOLDERS;
        if self.random.once_in(2) {
            let time = self.until_an_end(LEASE);
            self.wait(time);
        }
        // Enough to lease, and not what it then has.
        let before = self.random.below(9) as u32;
        self.is_silent = plot == 5;
        self.drain(who, 9 + before)?;
        match plot {
            // To the end of the lease, or hardly beyond.
            0 => {
                let end = (self.server.now() + LEASE).next_multiple_of(LEASE / 8) - self.server.now();
                let late = self.random.one_of(&[1, 10_000, 30_000, 45_000]);
                self.wait(end + late);
            }
            // A request before the end is late.
            1 => {
                let time = LEASE / 2 + self.random.below(LEASE / 8 * 3);
                self.wait(time);
                if self.random.once_in(2) {
                    self.due(who);
                } else {
                    // As the lease runs low.
                    self.is_silent = true;
                    let spent = self.random.below(20) as u32;
                    self.drain(who, spent)?;
                    self.is_silent = false;
                }
                let time = self.random.below(LEASE / 2);
                self.wait(time);
                self.arrive()?;
                self.return_reply();
                let time = self.random.below(LEASE / 2);
                self.wait(time);
            }
            // It spends what it has just before the end, and the server does not hear of it until later.
            2 => {
                let time = LEASE / 8 * 6 + self.random.below(LEASE / 8);
                self.wait(time);
                self.is_silent = true;
                self.drain(who, 70)?;
                self.is_silent = false;
                let end = self.until_an_end(LEASE / 4);
                self.wait(end);
            }
            // A request is overtaken by the next one.
            3 => {
                let time = PACE + self.random.below(LEASE / 2);
                self.wait(time);
                self.due(who);
                while !self.processes[who].waiting.is_empty() {
                    self.processes[who].give_up(0);
                }
                self.wait(PACE + PACE / 4);
                self.drain(who, 30)?;
                self.arrive()?;
                let time = self.random.below(LEASE / 2);
                self.wait(time);
            }
            // The server forgets several times what is leased, and each time another process leases what has dripped in.
            4 => {
                for index in 1..=HOLDERS {
                    self.wait(PACE);
                    if self.setting.trouble == Trouble::Loss {
                        self.server.flush();
                    }
                    let time = self.random.below(LEASE / 2);
                    self.wait(time);
                    for _ in 0..3 {
                        self.drain((who + index) % HOLDERS, 9)?;
                        self.wait(PACE + PACE / 4);
                    }
                    self.due((who + index) % HOLDERS);
                    self.deliver()?;
                }
                let time = self.random.below(LEASE / 2);
                self.wait(time);
            }
            // Two lease at the same time, and then the server may forget it.
            _ => {
                self.drain(other, 9)?;
                self.is_silent = false;
                self.deliver()?;
                let time = self.random.below(LEASE / 2);
                self.wait(time);
                if self.setting.trouble == Trouble::Loss {
                    self.server.flush();
                }
                let time = self.random.below(LEASE / 2);
                self.wait(time);
            }
        }
        self.drain(GLUTTON, 70)?;
        for index in 0..HOLDERS {
            self.drain((who + index) % HOLDERS, 70)?;
        }
        Ok(())
    }

    /// Lets all messages arrive.
    fn deliver(&mut self) -> Result<(), String> {
        while !self.wire.is_empty() {
            self.arrive_at(0)?;
        }
        for _ in 0..self.back.len() {
            self.return_at(0);
        }
        Ok(())
    }

    pub(super) fn due(&mut self, who: usize) {
        if self.processes[who].is_running()
            && let Some(dispatch) = self.processes[who].due()
        {
            self.send(who, *dispatch);
        }
    }
}
