//! Headgate's replica: the data plane, the admin plane and the command line.
//!
//! Imports point one way: `startup > router > ingress, admin, cli > explain > flow > app > upstream, catalog > dialect > canonical, error >
//! metrics`.

pub mod admin;
pub mod app;
pub mod canonical;
pub mod catalog;
pub mod cli;
pub mod dialect;
pub mod enrol;
pub mod error;
pub mod explain;
pub mod flow;
pub mod health;
pub mod ingress;
pub mod lease_keeper;
pub mod manage;
pub mod metrics;
pub mod ops;
pub mod router;
pub mod serve;
pub mod startup;
pub mod sweep;
pub mod telemetry;
pub mod upstream;
