//! Every script on a private redis-server, with a clock of the test's own.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod state {
    mod acquire;
    mod admit;
    mod conn_tpm;
    mod contract;
    mod cost;
    mod credit;
    mod declare;
    mod endpoints;
    mod explain;
    mod health;
    mod line;
    mod made;
    mod model;
    mod pins;
    mod quotas;
    mod record;
    mod renew;
    mod roster;
    mod settle;
    mod slots;
    mod survey;
    mod table;
    mod thoughts;
    mod tpm;
    mod turns;
}
