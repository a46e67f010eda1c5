//! What the integration tests share: exact models, the mutex twin, and the table of algorithms.
//!
//! A new algorithm is one line in [`families::FAMILIES`], one in [`families::words`], and a model
//! of its own under `models/` that [`oracle::Rule`] names.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

pub mod asking;
pub mod families;
pub mod models;
pub mod moves;
pub mod oracle;
pub mod subject;
pub mod twin;
