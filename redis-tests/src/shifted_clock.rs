//! A server's clock that steps, for clients behind a proxy.

use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::substitution::Substitution;
use damper_redis::internal::SOURCE;

/// The key that holds the clock's offset.
const OFFSET: &str = "test:clock-offset";
/// The call by which the script reads the clock.
const TIME: &str = "call('TIME')";

/// A copy of the script whose clock is set by the test.
///
/// Clients know only the script's own digest. The proxy replaces it in their requests by that of the copy.
#[derive(Debug)]
pub struct ShiftedClock<'a> {
    server: &'a RedisServer,
    script: String,
}

impl<'a> ShiftedClock<'a> {
    /// Makes the clients behind `proxy` see a clock that runs with the server's until it is stepped.
    ///
    /// # Panics
    ///
    /// If the script does not read the clock as this type expects.
    #[must_use]
    pub fn new(server: &'a RedisServer, proxy: &Proxy) -> Self {
        assert_eq!(SOURCE.matches(TIME).count(), 1, "the script reads the clock once, by {TIME}");
        // The offset is a key that the script does not declare, which a single server allows.
        let shifted = format!(
            "local function shifted_time()
                local time = redis.call('TIME')
                local offset = tonumber(redis.call('GET', '{OFFSET}') or '0')
                local micros = tonumber(time[1]) * 1000000 + tonumber(time[2]) + offset
                return {{ string.format('%.0f', math.floor(micros / 1000000)), string.format('%.0f', micros % 1000000) }}
            end
            {}",
            SOURCE.replace(TIME, "shifted_time()")
        );
        let clock = Self { server, script: shifted };
        let own: String = server.ask(&["SCRIPT", "LOAD", SOURCE]);
        proxy.substitute(Substitution::new(&own, &clock.load()));
        clock
    }

    /// Loads the copy, which a server that was emptied or replaced has lost, and returns its digest.
    fn load(&self) -> String {
        self.server.ask(&["SCRIPT", "LOAD", &self.script])
    }

    /// Sets the clock ahead of the server's by so many microseconds; a negative number sets it behind.
    pub fn step_to(&self, micros: i64) {
        self.server.ask::<()>(&["SET", OFFSET, &micros.to_string()]);
    }
}
