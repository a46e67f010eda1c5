//! The charge that a request holds while it is served.

use alloc::sync::Arc;
use core::fmt;
use core::mem;

use ::http::Response;

use super::admit::Admit;
use super::layer::Gate;
use crate::http::{Fields, KeyOf};

/// An admitted request, from before it reaches the service until its response has come. Dropped
/// before that, its charge is kept or given back as the limiter was built to.
pub(super) struct Admission<L: Admit<X::Key>, X: KeyOf, B> {
    pub(super) gate: Arc<Gate<L, X, B>>,
    pub(super) key: X::Key,
    /// None once it has ended.
    pub(super) charge: Option<L::Charge>,
    pub(super) cost: u64,
    /// What the response will tell the client.
    pub(super) fields: Fields,
}

impl<L: Admit<X::Key>, X: KeyOf, B> Admission<L, X, B> {
    /// The response has come: it tells the client where it stands, and what was used of the charge.
    pub(super) fn conclude(&mut self, response: &mut Response<B>) {
        mem::take(&mut self.fields).add_to(response.headers_mut());
        let used = self.gate.used(response, self.cost);
        if let Some(charge) = self.charge.take() {
            match used {
                Some(used) => self.gate.limiter.settle(&self.key, charge, used),
                None => self.gate.limiter.commit(&self.key, charge),
            }
        }
    }
}

impl<L: Admit<X::Key>, X: KeyOf, B> Drop for Admission<L, X, B> {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.gate.limiter.cancel(&self.key, charge);
        }
    }
}

impl<L: Admit<X::Key>, X: KeyOf, B> fmt::Debug for Admission<L, X, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("cost", &self.cost)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
