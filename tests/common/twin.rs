//! The slow twin: the oracle's states in a map behind a mutex, with the limiter's operations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tollgate::Reading;

use super::models::Paid;
use super::oracle::{Figures, Oracle, Rule};
use super::subject::{Answer, Refund, Subject};

/// How a limit is made: its rule and its figures.
pub type Terms = (Rule, Figures);

struct Inside {
    clients: HashMap<String, Oracle>,
    global: Option<Oracle>,
}

/// What one admitted request paid, to its own limit and to the cap.
struct Payment {
    client: Paid,
    global: Option<Paid>,
}

/// A limiter that is right because it is simple.
pub struct Twin {
    each: Terms,
    inside: Mutex<Inside>,
}

impl Twin {
    pub fn new(each: Terms, global: Option<Terms>) -> Self {
        let global = global.map(|(rule, figures)| Oracle::new(rule, figures));
        Self { each, inside: Mutex::new(Inside { clients: HashMap::new(), global }) }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    fn fresh(&self) -> Oracle {
        Oracle::new(self.each.0, self.each.1)
    }

    fn peek_inside(&self, inside: &Inside, key: &str, cost: u64, now: u64) -> Answer {
        let client = match inside.clients.get(key) {
            Some(client) => client.peek(now, cost),
            None => self.fresh().peek(now, cost),
        };
        combine(client, inside.global.as_ref().map(|global| global.peek(now, cost)))
    }

    fn admits_inside(&self, inside: &Inside, key: &str, cost: u64, now: u64) -> bool {
        let client = match inside.clients.get(key) {
            Some(client) => client.admits(now, cost),
            None => self.fresh().admits(now, cost),
        };
        client && inside.global.as_ref().is_none_or(|global| global.admits(now, cost))
    }

    /// Charges both limits, which admit.
    fn pay(&self, inside: &mut Inside, key: &str, cost: u64, now: u64) -> Payment {
        if cost == 0 {
            return Payment { client: Paid { amount: 0, place: 0 }, global: None };
        }
        let client = inside.clients.entry(key.to_owned()).or_insert_with(|| self.fresh());
        let client = client.take(now, cost).expect("it was asked first");
        let global = inside.global.as_mut().map(|global| global.take(now, cost).unwrap());
        Payment { client, global }
    }
}

impl Subject for Twin {
    fn check(&self, key: &str, cost: u64, now: u64) -> Answer {
        let mut inside = self.inside();
        let found = self.peek_inside(&inside, key, cost, now);
        if !found.admitted() {
            return found;
        }
        let _ = self.pay(&mut inside, key, cost, now);
        let left = self.peek_inside(&inside, key, 0, now).reading;
        let reading = Reading {
            limit: left.limit,
            remaining: left.remaining,
            reset_after: left.reset_after,
            ..found.reading
        };
        Answer { reading, ..found }
    }

    fn peek(&self, key: &str, cost: u64, now: u64) -> Answer {
        self.peek_inside(&self.inside(), key, cost, now)
    }

    fn acquire<'a>(&'a self, key: &'a str, cost: u64, now: u64) -> Result<Refund<'a>, Answer> {
        let mut inside = self.inside();
        if !self.admits_inside(&inside, key, cost, now) {
            return Err(self.peek_inside(&inside, key, cost, now));
        }
        let payment = self.pay(&mut inside, key, cost, now);
        Ok(Box::new(move |now| {
            let mut inside = self.inside();
            if let Some(client) = inside.clients.get_mut(key) {
                client.refund(now, payment.client);
            }
            if let (Some(global), Some(paid)) = (&mut inside.global, payment.global) {
                global.refund(now, paid);
            }
        }))
    }

    fn credit(&self, key: &str, amount: u64, now: u64) {
        if let Some(client) = self.inside().clients.get_mut(key) {
            client.credit(now, amount);
        }
    }

    fn admits(&self, key: &str, cost: u64, now: u64) -> bool {
        let mut inside = self.inside();
        let admitted = self.admits_inside(&inside, key, cost, now);
        if admitted {
            let _ = self.pay(&mut inside, key, cost, now);
        }
        admitted
    }

    fn clients(&self) -> usize {
        self.inside().clients.len()
    }
}

/// One answer from the client's reading and the cap's: the figures of the one with less left (the
/// client's if they have the same), the longer of all waits; work waits only if it is admitted.
fn combine(client: Reading, global: Option<Reading>) -> Answer {
    let Some(global) = global else {
        return Answer {
            reading: client,
            refused_by_client: !client.admitted,
            refused_by_global: false,
        };
    };
    let (limit, remaining) = if client.remaining <= global.remaining {
        (client.limit, client.remaining)
    } else {
        (global.limit, global.remaining)
    };
    let admitted = client.admitted && global.admitted;
    let reading = Reading {
        admitted,
        limit,
        remaining,
        retry_after: client.retry_after.max(global.retry_after),
        reset_after: client.reset_after.max(global.reset_after),
        delay: if admitted { client.delay.max(global.delay) } else { Duration::ZERO },
    };
    Answer { reading, refused_by_client: !client.admitted, refused_by_global: !global.admitted }
}
