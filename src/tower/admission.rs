//! An admitted request, from before it reaches the service until its response has come.

use alloc::sync::Arc;
use core::fmt;

use ::http::Response;

use super::admit::Admit;
use super::layer::Gate;
use crate::http::{Fields, KeyOf};

/// What the response will bring.
pub(super) struct Admission<L: Admit<X::Key>, X: KeyOf, B> {
    /// What it will tell the client.
    pub(super) fields: Option<Fields>,
    /// What it will end; a charge that is final when it is made is not kept.
    pub(super) charge: Option<OpenCharge<L, X, B>>,
}

/// A charge that ends with the response. Dropped before that, it is kept or given back as the
/// limiter was built to.
pub(super) struct OpenCharge<L: Admit<X::Key>, X: KeyOf, B> {
    pub(super) gate: Arc<Gate<L, X, B>>,
    pub(super) key: X::Key,
    /// None once it has ended.
    pub(super) charge: Option<L::Charge>,
    pub(super) cost: u64,
}

impl<L: Admit<X::Key>, X: KeyOf, B> Admission<L, X, B> {
    /// The response has come.
    pub(super) fn conclude(&mut self, response: &mut Response<B>) {
        if let Some(fields) = self.fields.take() {
            fields.add_to(response.headers_mut());
        }
        if let Some(open) = &mut self.charge {
            open.end(response);
        }
    }
}

impl<L: Admit<X::Key>, X: KeyOf, B> OpenCharge<L, X, B> {
    /// The response tells what was used of it.
    fn end(&mut self, response: &Response<B>) {
        let used = self.gate.used(response, self.cost);
        if let Some(charge) = self.charge.take() {
            match used {
                Some(used) => self.gate.limiter.settle(&self.key, charge, used),
                None => self.gate.limiter.commit(&self.key, charge),
            }
        }
    }
}

impl<L: Admit<X::Key>, X: KeyOf, B> Drop for OpenCharge<L, X, B> {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.gate.limiter.cancel(&self.key, charge);
        }
    }
}

/// Nothing.
impl<L: Admit<X::Key>, X: KeyOf, B> Default for Admission<L, X, B> {
    fn default() -> Self {
        Self { fields: None, charge: None }
    }
}

impl<L: Admit<X::Key>, X: KeyOf, B> fmt::Debug for Admission<L, X, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("fields", &self.fields).finish_non_exhaustive()
    }
}
