//! Stores of values of a user's own, by a template, through the public API.

use damper::store::{Evictable, Keyed, Template};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Counts calls up to a number that can change.
struct Allowance {
    tenant: String,
    calls: AtomicU32,
    most: AtomicU32,
}

impl Allowance {
    fn admits(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) < self.most.load(Ordering::Relaxed)
    }

    fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct PerTenant {
    most: AtomicU32,
    created: AtomicUsize,
}

impl Template<String> for PerTenant {
    type Value = Allowance;

    fn create(&self, tenant: &String) -> Allowance {
        self.created.fetch_add(1, Ordering::Relaxed);
        let most = AtomicU32::new(self.most.load(Ordering::Relaxed));
        Allowance { tenant: tenant.clone(), calls: AtomicU32::new(0), most }
    }

    fn update(&self, allowance: &Allowance) {
        allowance.most.store(self.most.load(Ordering::Relaxed), Ordering::Relaxed);
        assert!(allowance.tenant != "broken", "an update that panics");
    }

    fn is_worth_keeping(allowance: &Allowance) -> bool {
        allowance.calls.load(Ordering::Relaxed) > 0
    }
}

impl Evictable for PerTenant {}

fn tenants(capacity: usize) -> Keyed<String, PerTenant> {
    Keyed::with_template(PerTenant { most: AtomicU32::new(1), created: AtomicUsize::new(0) }, capacity).unwrap()
}

fn set_most(tenants: &Keyed<String, PerTenant>, most: u32) {
    tenants.change(|template| template.most.store(most, Ordering::Relaxed));
}

#[test]
fn every_key_has_a_value_of_the_template() {
    let tenants = tenants(16);
    assert!(tenants.get_or_create("acme").admits());
    assert!(!tenants.get_or_create("acme").admits());
    assert!(tenants.get_or_create("initech").admits());
    assert_eq!(tenants.get_or_create("acme").tenant, "acme", "it is created for its key");
    assert_eq!(tenants.template().created.load(Ordering::Relaxed), 2);
    assert_eq!((tenants.len(), tenants.is_empty(), tenants.capacity()), (2, false, 16));
    assert!(format!("{tenants:?}").starts_with("Keyed { template: PerTenant {"));
    assert_eq!(Keyed::<String, PerTenant>::default().capacity(), 1_024);
    assert!(Keyed::<String, _>::with_template(PerTenant::default(), 0).is_err());
}

#[test]
fn changed_settings_reach_present_and_later_keys() {
    let tenants = tenants(16);
    assert_eq!(tenants.get_or_create("acme").most(), 1);
    set_most(&tenants, 7);
    assert_eq!(["acme", "initech"].map(|tenant| tenants.get_or_create(tenant).most()), [7; 2]);
}

#[test]
fn update_that_panics_leaves_no_other_key_behind() {
    let tenants = tenants(300);
    for number in 0..100 {
        tenants.get_or_create(&number.to_string());
    }
    tenants.get_or_create("broken");
    catch_unwind(AssertUnwindSafe(|| set_most(&tenants, 5))).unwrap_err();
    assert!(tenants.inspect_all(|_, allowance| allowance.most()).all(|most| most == 5));
}

#[test]
fn values_worth_keeping_are_evicted_last() {
    let tenants = tenants(4);
    assert!(tenants.get_or_create("acme").admits());
    for number in 0..100 {
        tenants.get_or_create(&number.to_string());
    }
    assert!(!tenants.get_or_create("acme").admits());
    assert_eq!((tenants.len(), tenants.evictions(), tenants.store().kept_evictions()), (4, 97, 0));
}

#[test]
fn looking_at_a_value_has_no_effect() {
    let tenants = tenants(2);
    assert_eq!(tenants.inspect("acme", Allowance::most), None);
    tenants.get_or_create("acme");
    tenants.get_or_create("initech");
    for _ in 0..5 {
        assert_eq!(tenants.inspect("acme", Allowance::most), Some(1));
    }
    tenants.get_or_create("globex");
    assert_eq!(tenants.inspect("acme", Allowance::most), None, "it was the first to go");
}

/// Each key has one connection, and never two.
struct Connections;

impl Template<u32> for Connections {
    type Value = u32;

    fn create(&self, number: &u32) -> u32 {
        *number
    }
}

#[test]
fn held_value_is_not_evicted() {
    let connections = Keyed::with_template(Connections, 2).unwrap();
    let held = connections.try_get_or_create(&1).unwrap();
    let weak = Arc::downgrade(&connections.try_get_or_create(&2).unwrap());
    assert!(connections.try_get_or_create(&3).is_none(), "both are held");
    drop(weak);
    assert_eq!(*connections.try_get_or_create(&3).unwrap(), 3);
    assert!(Arc::ptr_eq(&held, &connections.try_get_or_create(&1).unwrap()));
    assert_eq!((connections.len(), connections.evictions()), (2, 1));
}

/// The values of an evictable template too, where a caller asks for that.
#[test]
fn held_value_of_an_evictable_template_stays_if_asked_for() {
    let tenants = tenants(1);
    let held = tenants.try_get_or_create("acme").unwrap();
    assert!(tenants.try_get_or_create("initech").is_none());
    assert_eq!(tenants.get_or_create("initech").tenant, "initech", "evicts it");
    assert_eq!(held.tenant, "acme");
}
