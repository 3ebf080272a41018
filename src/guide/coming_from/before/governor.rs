use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::net::IpAddr;
use std::num::NonZeroU32;

const RATE: NonZeroU32 = NonZeroU32::new(50).unwrap();
const BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();
const BATCH: NonZeroU32 = NonZeroU32::new(5).unwrap();

fn main() {
    let quota = Quota::per_second(RATE).allow_burst(BURST);
    let limiter: DefaultDirectRateLimiter = RateLimiter::direct(quota);
    match limiter.check() {
        Ok(()) => println!("allowed"),
        Err(until) => println!("retry in {:?}", until.wait_time_from(DefaultClock::default().now())),
    }
    match limiter.check_n(BATCH) {
        Ok(Ok(())) => println!("allowed"),
        Ok(Err(_)) => println!("not now"),
        Err(_) => println!("never: more than the burst"),
    }

    let clients: DefaultKeyedRateLimiter<IpAddr> = RateLimiter::keyed(quota);
    assert!(clients.check_key(&IpAddr::from([192, 0, 2, 7])).is_ok());
    clients.retain_recent(); // now and then, or the map keeps every key
}
