//! Limits by plan: the script beside an exact model and beside the tree in a process.

use crate::seed::seed;
use damper_core::keyed::QuotaTreeBuilder;
use damper_core::time::Seed;
use damper_core::{ManualClock, Plan, Quota, QuotaTree, TreeReservation};
use damper_redis::internal::{
    Command, Frame, Limit, PARTS_PER_BURST, PathKeys, PlannedTake, PlannedTakes, Reply, SOURCE, Sighting, SlotTags,
    Status, Take, Terms,
};
use damper_redis_tests::{LuaServer, Random};
use std::sync::Arc;
use std::time::Duration;

/// A multiple of the times-to-live, so that generations begin at the same times as in a process.
const START: u64 = 1_792_000_000_000_000;
const SECOND: u64 = 1_000_000;
const FRAME: Frame = Frame { not_after: 0, lease: SECOND, after_loss: 60 * SECOND };

/// Nothing, or how the script differs.
type Answer = Result<(), String>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Answer {
    if holds { Ok(()) } else { Err(what()) }
}

fn server(script: &str, tags: &SlotTags) -> LuaServer {
    let server = LuaServer::with_script(script, START);
    tags.markers().for_each(|marker| server.set(&marker, b"0"));
    server
}

fn take(terms: Terms, take: Take, count: u32, counted: u32) -> PlannedTake {
    PlannedTake { limit: Limit { terms, seen: Sighting::default() }, take, count, counted }
}

fn run(server: &LuaServer, keys: &PathKeys, planned: PlannedTakes) -> Result<Reply, String> {
    let command = Command::ByPlan(planned);
    let value = server.run(keys.names(), &command.args(&FRAME)).map_err(|error| format!("{command:?}: {error}"))?;
    Reply::parse(&value, &command).map_err(|error| format!("{command:?}: {error}: {value:?}"))
}

/// A bucket as it is stored, in whole numbers without a bound.
#[derive(Clone, Copy, Debug)]
struct Stored {
    full: i128,
    rest: i128,
    p: i128,
    longest: i128,
    told: u64,
    begun: u64,
    current: u32,
    before: u32,
    expires: u64,
}

/// An exact model of one bucket, with the envelope of each plan and the law of time.
struct Model {
    stored: Option<Stored>,
    /// The admissions: the time, the number of the plan, the tokens.
    admitted: Vec<(u64, usize, u64)>,
    time_to_live: u64,
    most: u32,
}

impl Model {
    /// Returns the state at a time as a plan reads it, and whether a clock that stepped back was healed.
    fn open(&self, now: u64, terms: &Terms) -> (Stored, bool) {
        let (p, now_exact) = (i128::from(terms.rate.tokens()), i128::from(now));
        // With the doubles of the script.
        let deepest = (terms.deepest as f64 * terms.rate.micros() as f64 / p as f64).floor() as i128 + 1;
        let begun = now - now % self.time_to_live;
        let fresh =
            Stored { full: now_exact, rest: 0, p, longest: deepest, told: 0, begun, current: 0, before: 0, expires: 0 };
        let Some(mut stored) = self.stored.filter(|stored| now / 1_000 <= stored.expires) else {
            return (fresh, false);
        };
        stored.longest = stored.longest.max(deepest);
        let healed = stored.full - now_exact > stored.longest;
        if healed {
            (stored.full, stored.rest) = (now_exact + stored.longest, 0);
        }
        // Rounded up to the parts of a µs that this plan has.
        (stored.rest, stored.p) = ((stored.rest * p + stored.p - 1) / stored.p, p);
        (stored.current, stored.before, stored.begun) = match now.checked_sub(stored.begun) {
            Some(age) if age < self.time_to_live => (stored.current, stored.before, stored.begun),
            Some(age) if age < 2 * self.time_to_live => (0, stored.current, begun),
            _ => (0, 0, begun),
        };
        (stored, healed)
    }

    fn compare(&mut self, now: u64, plan: usize, planned: &PlannedTakes, reply: &Reply) -> Answer {
        let PlannedTake { limit, take, count, counted } = planned.takes[0];
        let (terms, level) = (limit.terms, reply.levels[0]);
        let (mut stored, mut changed) = self.open(now, &terms);
        let (p, q) = (stored.p, i128::from(terms.rate.micros()));
        let is_new = self.stored.is_none_or(|stored| now / 1_000 > stored.expires);
        let mut debt = ((stored.full - i128::from(now)) * p + stored.rest).max(0);
        let generation = match planned.since {
            since if since > now => None,
            since if since >= stored.begun => Some(&mut stored.current),
            since if since + self.time_to_live >= stored.begun => Some(&mut stored.before),
            _ => None,
        };
        let released = generation.map_or(0, |unsettled| {
            let released = counted.min(*unsettled);
            *unsettled -= released;
            released
        });
        let is_alive = now <= planned.since + self.time_to_live;
        let most = u64::from(released) * u64::from(terms.burst) / u64::from(PARTS_PER_BURST);
        let refund = if is_alive { take.refund.min(most) } else { 0 };
        debt = (debt - i128::from(refund) * q).max(0);
        let owed = |debt: i128| u64::try_from((debt + q - 1) / q).expect("fewer than 2^64 tokens");
        let charge = take.charge.min(terms.deepest.saturating_sub(owed(debt)));
        debt += i128::from(charge) * q;
        changed |= released > 0 || refund > 0 || take.charge > 0;
        let allowed = take.cost == 0 || owed(debt) + u64::from(take.cost) <= u64::from(terms.burst);
        let status = if allowed { Status::Done } else { Status::Denied };
        require(reply.status == status, || format!("the status is {status:?}"))?;
        let mut counted = 0;
        if allowed {
            debt += i128::from(take.cost) * q;
            counted = count.min(self.most.saturating_sub(stored.current + stored.before));
            stored.current += counted;
            changed |= take.cost > 0;
        }
        require(reply.counted == [counted], || format!("{counted} parts are counted"))?;
        let frac = i128::from(owed(debt)) * q - debt;
        require((i128::from(level.owed), i128::from(level.frac)) == (owed(debt).into(), frac), || {
            format!("the debt is {debt} parts")
        })?;
        require(level.at == now, || format!("the level is that of {now}"))?;
        if changed && !(is_new && debt == 0) {
            stored.told = stored.told.max(level.full_at);
            let until = if stored.current + stored.before > 0 { stored.begun + 2 * self.time_to_live } else { 0 };
            (stored.full, stored.rest) = (i128::from(now) + debt / p, debt % p);
            stored.expires = now / 1_000 + stored.told.max(until).saturating_sub(now) / 1_000 + 3;
            self.stored = Some(stored);
        }
        if allowed && take.cost > 0 {
            self.admitted.push((now, plan, take.cost.into()));
        }
        Ok(())
    }

    /// Checks that each plan stays in its own envelope, and the law of time.
    ///
    /// The refunds are what comes on top of both.
    fn law(&self, plans: &[Terms], refunds: &[(u64, usize, u64)]) -> Answer {
        let micros = |plan: usize| plans[plan].rate.micros() as f64 / plans[plan].rate.tokens() as f64;
        let sum = |log: &[(u64, usize, u64)], from: u64, until: u64, of: &dyn Fn(usize, u64) -> f64| {
            let inside = log.iter().filter(|(at, ..)| (from..=until).contains(at));
            inside.map(|&(_, plan, tokens)| of(plan, tokens)).sum::<f64>()
        };
        for (begin, &(from, ..)) in self.admitted.iter().enumerate() {
            for &(until, ..) in &self.admitted[begin..] {
                let time = |of: usize, tokens: u64| tokens as f64 * micros(of);
                let span = (until - from + 1) as f64;
                for (plan, terms) in plans.iter().enumerate() {
                    let own = |of: usize, tokens: u64| if of == plan { tokens as f64 } else { 0.0 };
                    let admitted = sum(&self.admitted, from, until, &own);
                    let back = sum(refunds, from, until, &time) / micros(plan);
                    let bound = f64::from(terms.burst) + span / micros(plan) + back;
                    require(admitted <= bound * (1.0 + 1e-9), || {
                        format!("plan {plan}: {admitted} tokens from {from} to {until}, at most {bound}")
                    })?;
                }
                let refill = |plan: usize| f64::from(plans[plan].burst) * micros(plan);
                let longest = (0..plans.len()).map(refill).fold(0.0, f64::max);
                let (used, back) = (sum(&self.admitted, from, until, &time), sum(refunds, from, until, &time));
                let calls = (self.admitted.len() + refunds.len()) as f64;
                require(used <= (span + longest + back + calls) * (1.0 + 1e-9), || {
                    format!("{used} µs of tokens from {from} to {until}, with refills up to {longest}, {back} back")
                })?;
            }
        }
        Ok(())
    }
}

fn quota(random: &mut Random) -> Quota {
    let limit = random.one_of(&[1, 7, 10, 60, 999_983, 90_000, 7_000_000]);
    let window = random.one_of(&[1, 1, 60, 3_600, 86_400]) * 1_000_000_000 + random.one_of(&[0, 0, 0, 1, 999_999_937]);
    let burst = random.one_of(&[1, 3, 10, 1_000, 90_000]);
    let quota = Quota::per(limit, Duration::from_nanos(window)).unwrap().burst(burst);
    if random.once_in(3) { quota.max_debt(random.one_of(&[0, 1, 50])) } else { quota }
}

/// Runs a schedule of one bucket under one plan to three that alternate.
fn schedule(script: &str, tags: &SlotTags, seed: u64) -> Answer {
    let mut random = Random(seed);
    let server = server(script, tags);
    let mut keys = PathKeys::new(tags, "by plan", &random.number().to_le_bytes());
    keys.push("user", "tokens", b"alice");
    let (mut plans, wanted) = (Vec::new(), 1 + random.below(3) as usize);
    while plans.len() < wanted {
        // Some take longer to refill than a plan may.
        plans.extend(Plan::new(quota(&mut random)).ok().and_then(|plan| Terms::of_plan(&plan)));
    }
    let time_to_live = random.one_of(&[1, 1_000, SECOND, 120 * SECOND]);
    let most = random.one_of(&[0, 1, PARTS_PER_BURST / 2, 2 * PARTS_PER_BURST]);
    let mut model = Model { stored: None, admitted: Vec::new(), time_to_live, most };
    let (mut open, mut refunds, mut charged) = (Vec::new(), Vec::new(), 0);
    let mut stepped_back = false;
    for step in 0..80 {
        let plan = random.below(plans.len() as u64) as usize;
        let (terms, now) = (plans[plan], server.now());
        let refill = (f64::from(terms.burst) * terms.rate.micros() as f64 / terms.rate.tokens() as f64) as u64;
        let mut planned = PlannedTakes { takes: Vec::new(), most_unsettled: most, time_to_live, since: 0 };
        match random.below(10) {
            0..3 => {
                let longest =
                    random.one_of(&[3, 1_000, time_to_live, 2 * time_to_live, refill / 8, refill, 2 * refill]);
                server.advance(random.below(longest + 1) + 1);
                continue;
            }
            3 if random.once_in(8) => {
                model.stored = model.stored.filter(|stored| now / 1_000 <= stored.expires);
                server.set_time(now - random.one_of(&[1, 1_000, refill.min(1 << 44), 7_200_000_000]));
                stepped_back = true;
                continue;
            }
            4 | 5 if !open.is_empty() => {
                let (plan, cost, counted, since) = open.swap_remove(random.below(open.len() as u64) as usize);
                let unused = random.below(u64::from(cost) + 1);
                let charge = if random.once_in(4) { random.below(20) } else { 0 };
                // Some are told another time than that of their reservation.
                planned.since = if random.once_in(8) { since + random.below(time_to_live) } else { since };
                let settled = Take { cost: 0, charge, refund: if charge > 0 { 0 } else { unused } };
                planned.takes.push(take(plans[plan], settled, 0, counted));
                let reply = run(&server, &keys, planned.clone())?;
                model
                    .compare(now, plan, &planned, &reply)
                    .map_err(|error| format!("step {step}: {error}: {reply:?}"))?;
                refunds.push((now, plan, unused));
                charged += charge;
                continue;
            }
            _ => {}
        }
        let cost = match random.below(5) {
            0 => 0,
            1 => terms.burst,
            _ => 1 + random.below(terms.burst.min(4).into()) as u32,
        };
        let parts = (u64::from(cost) * u64::from(PARTS_PER_BURST)).div_ceil(terms.burst.into()) as u32;
        let count = if random.once_in(2) { parts } else { 0 };
        planned.takes.push(take(terms, Take { cost, ..Take::default() }, count, 0));
        let before = server.writes();
        let reply = run(&server, &keys, planned.clone())?;
        let stored = model.stored;
        model
            .compare(now, plan, &planned, &reply)
            .map_err(|error| format!("step {step}: {error}: {planned:?}, {reply:?}"))?;
        if reply.status == Status::Denied && !stepped_back {
            require(server.writes() == before, || format!("step {step}: a denial wrote"))?;
            // A moment before the wait has passed there is nothing, and then there is.
            if let Some(wait) = reply.levels[0].retry_after(&terms, cost, now).filter(|_| random.once_in(4)) {
                server.advance(wait.as_micros() as u64 - 1);
                for (late, status) in [(0, Status::Denied), (1, Status::Done)] {
                    server.advance(late);
                    let reply = run(&server, &keys, planned.clone())?;
                    require(reply.status == status, || format!("step {step}: {late} µs after {wait:?}: {stored:?}"))?;
                    model.compare(server.now(), plan, &planned, &reply)?;
                    if reply.status == Status::Done && count > 0 {
                        open.push((plan, cost, reply.counted[0], server.now()));
                    }
                }
            }
        } else if reply.status == Status::Done && count > 0 {
            open.push((plan, cost, reply.counted[0], now));
        }
    }
    if stepped_back || charged > 0 { Ok(()) } else { model.law(&plans, &refunds) }
}

/// Returns a plan whose tokens last 2^k beats of 64 ns, so that the tree in a process is exact too.
fn exact_plan(random: &mut Random) -> Plan {
    let token = 64 << (10 + random.below(8));
    let burst = random.one_of(&[1, 3, 16, 1_000]);
    let window = Duration::from_nanos(token * 64);
    Plan::new(Quota::per(64, window).unwrap().burst(burst).max_debt(1_000_000)).unwrap()
}

type Tree = QuotaTree<u64, 2, 2, Arc<ManualClock>, Seed>;

/// A reservation in both, with its path, its parts and its time.
struct Both<'a> {
    local: TreeReservation<&'a Tree>,
    path: Path,
    costs: [u32; 2],
    counted: Vec<u32>,
    since: u64,
}

/// The keys and the plans of a call: of a user and of the organisation that is the root.
type Path = ([u64; 2], [[Plan; 2]; 2]);

fn keys_of(tags: &SlotTags, [user, root]: [u64; 2]) -> PathKeys {
    let mut keys = PathKeys::new(tags, "tree", &root.to_le_bytes());
    for dimension in ["requests", "tokens"] {
        keys.push("user", dimension, &user.to_le_bytes());
    }
    for dimension in ["requests", "tokens"] {
        keys.push("organisation", dimension, &[]);
    }
    keys
}

/// Runs the same schedule on a tree in a process and on the script: every answer is the same.
///
/// The plans of a bucket alternate only in schedules that give nothing back: a tree in a process gives nothing back to a
/// bucket that was full since and then used under another plan alone, and the script does.
fn like_a_process(script: &str, tags: &SlotTags, seed: u64) -> Answer {
    let mut random = Random(seed);
    let server = server(script, tags);
    let clock = Arc::new(ManualClock::new());
    let bursts = random.one_of(&[0.0, 0.5, 2.0]);
    let time_to_live = random.one_of(&[1_000, 16_000, 1_600_000]);
    let most = (bursts * f64::from(PARTS_PER_BURST)) as u32;
    let hasher = Seed::new(1, 2);
    let tree: Tree =
        QuotaTreeBuilder::new(["user", "organisation"], ["requests", "tokens"], Arc::clone(&clock), hasher)
            .unsettled(bursts)
            .time_to_live(Duration::from_micros(time_to_live))
            // So many that no key takes over the slot of another, whose reservations would give nothing back then, and that no
            // buckets share the word of what is unsettled.
            .capacities([1 << 14; 2])
            .build()
            .unwrap();
    let plans: Vec<Plan> = (0..3).map(|_| exact_plan(&mut random)).collect();
    let alternate = random.once_in(2);
    let mut open: Vec<Both<'_>> = Vec::new();
    let both_advance = |micros: u64| {
        server.advance(micros);
        clock.advance(Duration::from_micros(micros));
    };
    for step in 0..60 {
        let differs = |what: String| format!("step {step}: {what}");
        match random.below(8) {
            0 | 1 => both_advance(16 * (random.one_of(&[0, 1, 10, 1_000, time_to_live / 16]) + random.below(4))),
            2 | 3 if !open.is_empty() => {
                let Both { local, path, costs, counted, since } =
                    open.swap_remove(random.below(open.len() as u64) as usize);
                let used = costs.map(|cost| {
                    let (least, most) = (if alternate { cost } else { 0 }, 2 * cost);
                    least + random.below(u64::from(most - least) + 1) as u32
                });
                let takes = (0..4).map(|place| {
                    let (level, dimension) = (place / 2, place % 2);
                    let (cost, used) = (costs[dimension], used[dimension]);
                    let terms = Terms::of_plan(&path.1[level][dimension]).unwrap();
                    let settled = Take {
                        cost: 0,
                        charge: used.saturating_sub(cost).into(),
                        refund: cost.saturating_sub(used).into(),
                    };
                    take(terms, settled, 0, counted[place])
                });
                let takes = takes.collect();
                local.settle(used);
                run(
                    &server,
                    &keys_of(tags, path.0),
                    PlannedTakes { takes, most_unsettled: most, time_to_live, since },
                )?;
            }
            _ => {
                let root = random.below(2);
                let keys = [10 * root + random.below(3), root];
                let mut plan_of = |bucket| plans[if alternate { random.below(3) } else { bucket % 3 } as usize];
                let path: Path = (keys, keys.map(|key| [plan_of(key), plan_of(key + 1)]));
                let largest = path.1.as_flattened().iter().map(|plan| plan.quota().burst_size()).min().unwrap_or(1);
                let costs = [1 + random.below(3) as u32, random.below(u64::from(largest) + 1) as u32];
                let takes = (0..4).map(|place| {
                    let plan = path.1[place / 2][place % 2];
                    let cost = costs[place % 2];
                    let burst = plan.quota().burst_size();
                    let count = (u64::from(cost) * u64::from(PARTS_PER_BURST)).div_ceil(burst.into()) as u32;
                    take(Terms::of_plan(&plan).unwrap(), Take { cost, ..Take::default() }, count, 0)
                });
                let takes = takes.collect::<Vec<_>>();
                let planned = PlannedTakes { takes: takes.clone(), most_unsettled: most, time_to_live, since: 0 };
                let reply = run(&server, &keys_of(tags, keys), planned)?;
                let [user, organisation] = &path.1;
                let local_path = [(&keys[0], user.each_ref()), (&keys[1], organisation.each_ref())];
                let local = tree.reserve(&local_path, costs);
                match (local, reply.status) {
                    (Ok(local), Status::Done) => {
                        open.push(Both { local, path, costs, counted: reply.counted, since: reply.now });
                    }
                    (Err(denied), Status::Denied) => {
                        let refusing = takes.iter().zip(&reply.levels).filter(|(take, _)| take.take.cost > 0);
                        let waits = refusing.map(|(take, level)| {
                            let wait = level.retry_after(&take.limit.terms, take.take.cost, reply.now);
                            wait.map_or(u64::MAX, |wait| wait.as_micros() as u64)
                        });
                        let wait = waits.max().unwrap_or(0);
                        let expected =
                            denied.retry_after().map_or(u64::MAX, |wait| wait.as_nanos().div_ceil(1_000) as u64);
                        require(wait == expected, || differs(format!("a wait of {wait} µs, not of {expected}")))?;
                    }
                    (local, status) => {
                        return Err(differs(format!("{status:?}, in a process {:?}: {reply:?}", local.map(drop))));
                    }
                }
            }
        }
    }
    Ok(())
}

const SCHEDULES: u64 = 400;

// CLAIM: redis::RedisTree
#[test]
fn limits_by_plan_are_exact_and_stay_in_their_envelopes() {
    let (tags, first) = (SlotTags::single(), seed());
    for number in 0..SCHEDULES {
        let seed = first.wrapping_add(number);
        schedule(SOURCE, &tags, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

// CLAIM: redis::RedisTree
#[test]
fn tree_decides_as_the_tree_in_a_process() {
    let (tags, first) = (SlotTags::single(), seed());
    for number in 0..SCHEDULES {
        let seed = first.wrapping_add(number);
        like_a_process(SOURCE, &tags, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A rule of limits by plan, the text of the script that keeps it, and what stands there without it.
const RULES: &[(&str, &str, &str)] = &[
    ("the part of a µs is kept", "instant, rest = instant + whole", "instant = instant + whole"),
    (
        "another plan reads the instant rounded up",
        "multiply_divide(rest, limit.p, p - 1, p)",
        "multiply_divide(rest, limit.p, 0, p)",
    ),
    ("another plan has other parts of a µs", "        if p ~= limit.p then\n", "        if false then\n"),
    (
        "a debt is not cut to what a plan may owe",
        "    if not by_plan then\n        heal(limit)\n    end\n",
        "    heal(limit)\n",
    ),
    ("a clock that stepped back is healed", "        if full - now > limit.longest then\n", "        if false then\n"),
    (
        "a heal is to the deepest debt of all plans",
        "limit.longest = max(limit.longest, longest)",
        "limit.longest = limit.longest",
    ),
    (
        "a heal is written on a denial",
        "limit.gen, limit.safe, limit.changed = limit.ver, limit.ver, true\n        end\n        if p",
        "limit.gen, limit.safe = limit.ver, limit.ver\n        end\n        if p",
    ),
    (
        "a refund is given only for what is counted",
        "min(limit.refund, floor(counted * limit.burst / PARTS_PER_BURST))",
        "limit.refund",
    ),
    (
        "nothing is given back after the time-to-live",
        "local is_alive = now - since <= time_to_live",
        "local is_alive = true",
    ),
    ("what is given back is counted no more", "            limit.current = limit.current - counted\n", ""),
    (
        "what an earlier generation gives back is counted no more",
        "            limit.before = limit.before - counted\n",
        "",
    ),
    ("no more than the bound is counted", "min(limit.count, room) or 0", "limit.count or 0"),
    ("the generation before is counted too", "limit.most - limit.current - limit.before", "limit.most - limit.current"),
    ("a denied call counts nothing", "limit.reserved = status == DONE and", "limit.reserved ="),
    (
        "counts end after the next generation",
        "if now - begun >= time_to_live and now - begun < 2 * time_to_live then",
        "if now - begun >= time_to_live then",
    ),
    ("counts move to the generation before", "            limit.before = current\n", ""),
    (
        "a reservation of a time to come is not counted",
        "if since >= limit.begun and since <= now then",
        "if since >= limit.begun then",
    ),
    (
        "a refund is given at any depth of debt",
        "if by_plan or limit.owed <= limit.burst then",
        "if limit.owed <= limit.burst then",
    ),
    ("the key lives as long as its counts", "max(limit.told, unsettled_until)", "limit.told"),
];

#[test]
fn every_rule_of_plans_that_is_left_out_is_noticed() {
    let tags = SlotTags::single();
    let mut unnoticed = Vec::new();
    for (rule, text, without) in RULES {
        assert_eq!(SOURCE.matches(text).count(), 1, "{rule}: {text:?} must stand once in the script");
        let script = SOURCE.replace(text, without);
        let fails =
            |seed: u64| schedule(&script, &tags, seed).is_err() || like_a_process(&script, &tags, seed).is_err();
        match (0..SCHEDULES).find(|&seed| fails(seed)) {
            Some(seed) => println!("{rule}: schedule {seed}"),
            None => unnoticed.push(rule),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

// CLAIM: redis::RedisTree
#[test]
fn lost_bucket_begins_empty_and_gives_nothing_back() {
    let tags = SlotTags::single();
    let server = server(SOURCE, &tags);
    let mut keys = PathKeys::new(&tags, "by plan", b"acme");
    keys.push("user", "tokens", b"alice");
    let terms = Terms::of_plan(&Plan::new(Quota::per_minute(60)).unwrap()).unwrap();
    let planned = |cost, refund, counted, since| PlannedTakes {
        takes: vec![take(terms, Take { cost, charge: 0, refund }, if cost > 0 { PARTS_PER_BURST } else { 0 }, counted)],
        most_unsettled: 2 * PARTS_PER_BURST,
        time_to_live: 120 * SECOND,
        since,
    };
    let reply = run(&server, &keys, planned(60, 0, 0, 0)).unwrap();
    assert_eq!((reply.status, &*reply.counted), (Status::Done, &[PARTS_PER_BURST][..]));
    server.flush();
    let reply = run(&server, &keys, planned(0, 60, PARTS_PER_BURST, reply.now)).unwrap();
    assert_eq!(reply.levels[0].owed, 60, "empty at the loss");
    // Garbage is as good as a loss.
    for garbage in [&b""[..], b"x", &[1; 89], &[2; 89]] {
        server.set(&keys.names()[1], garbage);
        assert_eq!(run(&server, &keys, planned(0, 0, 0, 0)).unwrap().levels[0].owed, 60, "{garbage:?}");
    }
}
