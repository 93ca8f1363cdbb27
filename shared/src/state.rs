//! The shared state in Redis: the only place that names a key, a script or the redis crate.

pub mod admission;
pub mod capacity;
pub mod credit;
pub mod explain;
pub mod keys;
pub mod leases;
pub mod ledger;
pub mod link;
pub mod made;
pub mod managed;
pub mod quotas;
pub mod records;
mod reply;
pub mod roster;
pub mod script;
pub mod scripts;
pub mod settlement;
pub mod store;
pub mod survey;
pub mod thoughts;
pub mod wake;

pub use link::StateError;
pub use store::Store;
