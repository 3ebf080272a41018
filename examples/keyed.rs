//! A limit per client address, in memory that is fixed however many addresses come.

use damper::{KeyedLimiter, ManualClock, OutOfRange, Quota};
use std::net::IpAddr;
use std::time::Duration;

fn main() -> Result<(), OutOfRange> {
    let clock = ManualClock::new(); // leave it out, and real time passes
    let quota = Quota::per_second(2).burst(3);
    let limits = KeyedLimiter::<IpAddr>::builder(quota).capacity(10_000).clock(&clock).build()?;
    println!("{quota} for each of {} addresses", limits.capacity());

    let (alice, bob) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    for _ in 0..4 {
        match limits.check(&alice) {
            Ok(allowed) => println!("alice: allowed, {} left", allowed.remaining()),
            Err(denied) => println!("alice: {denied}"),
        }
    }
    assert!(limits.check(&alice).is_err(), "alice has used up her burst");
    assert!(limits.check(&bob).is_ok(), "which is nothing to bob");
    println!("bob:   allowed, his bucket is his own");

    clock.advance(Duration::from_millis(500));
    assert!(limits.check(&alice).is_ok());
    println!("alice: allowed again after half a second");

    // An attacker with a million addresses gets no memory. There are two slots and two shared buckets for each address of the
    // capacity: newcomers fill the slots, and the rest share the buckets, each with little more than the quota of one client. Known clients
    // that have used tokens keep their own bucket; one that owes nothing may lose its slot, and has nothing to lose in it.
    let crowd = (0..1_000_000_u32).map(|address| IpAddr::from(address.to_be_bytes()));
    let allowed = crowd.filter(|address| limits.check(address).is_ok()).count();
    println!("a million addresses at once: {allowed} of their requests allowed, and no memory taken");
    assert!(allowed < limits.capacity() * (2 + 2 * 4));
    assert!(limits.check(&alice).is_err(), "alice still owes what she used");
    clock.advance(Duration::from_millis(500));
    assert!(limits.check(&alice).is_ok());
    println!("alice: allowed again after half a second, whatever the crowd does");
    Ok(())
}
