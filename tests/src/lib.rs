//! The fake upstream, and the harness of the cluster scenarios.

pub mod fake;
#[expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what goes wrong here fails the test"
)]
pub mod harness;
