//! One experiment under one strategy, event by event.

use super::contender::Contender;
use super::experiment::{End, Experiment};
use super::record::{Answer, Record, Slept};
use super::server::Server;
use super::throttle::Throttle;
use crate::random::Random;
use damper::throttle::{Hints, PacedAttempts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next event of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// It begins a call.
    Begin,
    /// Its sleep is over.
    Wake,
    /// Its call reaches the server.
    Arrive,
    /// It gets the answer.
    Answer,
}

/// Nanoseconds, so that events have an order.
///
/// Then the number of the event, so that the first scheduled one comes first.
type Scheduled = Reverse<(u64, u64, usize, Event)>;

struct Run<'a> {
    experiment: &'a Experiment,
    throttles: Vec<Box<dyn Throttle>>,
    server: Server,
    random: Random,
    events: BinaryHeap<Scheduled>,
    scheduled: u64,
    /// The last answer to each client.
    answers: Vec<Hints>,
    /// The sleep of each client, and when its call reaches the server after that.
    sleepers: Vec<(Option<PacedAttempts>, f64)>,
    record: Record,
}

/// Runs an experiment. Each process gets a throttle of its own.
#[must_use]
pub fn run(experiment: &Experiment, contender: &Contender, seed: u64) -> Record {
    let processes = experiment.processes as u64;
    let mut run = Run {
        experiment,
        throttles: (0..processes).map(|process| contender.throttle(seed * processes + process)).collect(),
        server: Server::new(experiment),
        random: Random::new(seed),
        events: BinaryHeap::new(),
        scheduled: 0,
        answers: vec![Hints::UNKNOWN; experiment.clients],
        sleepers: vec![(None, 0.0); experiment.clients],
        record: Record {
            requests: vec![0; experiment.clients],
            refused: vec![0; experiment.clients],
            joined: experiment.join_gap * (experiment.clients - 1) as f64,
            ..Record::default()
        },
    };
    for client in 0..experiment.clients {
        run.schedule(client as f64 * experiment.join_gap, client, Event::Begin);
    }
    run.all()
}

impl Run<'_> {
    fn schedule(&mut self, at: f64, client: usize, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse(((at * 1e9) as u64, self.scheduled, client, event)));
    }

    /// The way from the client to the server, or back.
    fn half_way(&mut self) -> f64 {
        let Experiment { latency, latency_spread, .. } = *self.experiment;
        latency / 2.0 * (1.0 + latency_spread * (2.0 * self.random.uniform() - 1.0))
    }

    fn sleep(&mut self, now: f64, client: usize, seconds: f64) {
        if seconds > 0.0 {
            self.record.sleeps.push(Slept { at: now, client, seconds });
        }
        let process = self.process(client);
        self.sleepers[client] = (self.throttles[process].sleeper(), now + seconds + self.half_way());
        self.schedule(now + seconds, client, Event::Wake);
    }

    /// The process of a client.
    fn process(&self, client: usize) -> usize {
        client * self.experiment.processes / self.experiment.clients
    }

    /// Returns the part of the server's answer that reaches the client.
    fn read(&mut self, hints: Hints) -> Hints {
        // No chance is taken where there is none, so that a seed has the same run with and without this option.
        let Experiment { bare, .. } = *self.experiment;
        if bare == 0.0 || self.random.uniform() >= bare {
            hints
        } else if hints.is_rejected() {
            Hints::REJECTED
        } else {
            Hints::ACCEPTED
        }
    }

    fn all(mut self) -> Record {
        let (last, enough) = match self.experiment.end {
            End::After(seconds) => (seconds, None),
            End::Cleared { remaining, within, .. } => (within, Some(remaining)),
        };
        while let Some(Reverse((nanos, _, client, event))) = self.events.pop() {
            let now = nanos as f64 / 1e9;
            if now >= last {
                break;
            }
            self.record.ended = now;
            let process = self.process(client);
            match event {
                Event::Begin => {
                    let seconds = self.throttles[process].before_call(now, self.random.uniform());
                    self.sleep(now, client, seconds);
                }
                Event::Wake => {
                    let (sleeper, arrival) = &mut self.sleepers[client];
                    let longer = sleeper.as_mut().and_then(|sleeper| self.throttles[process].extension(sleeper, now));
                    *arrival += longer.unwrap_or_default();
                    let arrival = *arrival;
                    if let Some(seconds) = longer {
                        self.record.sleeps.push(Slept { at: now, client, seconds });
                        self.schedule(now + seconds, client, Event::Wake);
                    } else {
                        self.schedule(arrival, client, Event::Arrive);
                    }
                }
                Event::Arrive => {
                    let hints = self.server.call(now);
                    self.answers[client] = self.read(hints);
                    self.record.requests[client] += 1;
                    self.record.refused[client] += u32::from(hints.is_rejected());
                    let remaining = hints.remaining.unwrap_or(0);
                    self.record.answers.push(Answer { at: now, client, rejected: hints.is_rejected(), remaining });
                    if enough.is_some_and(|enough| remaining <= u64::from(enough)) {
                        return self.record;
                    }
                    let way = self.half_way();
                    self.schedule(now + way, client, Event::Answer);
                }
                Event::Answer => {
                    let hints = self.answers[client];
                    match self.throttles[process].answered(&hints, now, self.random.uniform()) {
                        Some(seconds) => self.sleep(now, client, seconds),
                        None => self.schedule(now, client, Event::Begin),
                    }
                }
            }
        }
        self.record.ended = self.record.ended.max(last);
        self.record
    }
}
