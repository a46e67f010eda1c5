//! Loom models of the concurrency protocol.
