//! What the outcome of an attempt closes for others: the failure's effect as the script wants it.

use std::sync::Arc;

use shared::failure::{Class, Cooldown, LockLength, Scope};
use shared::state::capacity::{Length, LockCause, Mark, Sole};

use super::attempt::Failure;
use super::plan::Rung;

/// The mark of a failure. Client errors and cancelled attempts mark nothing.
pub fn mark(failure: &Failure, rung: &Rung, sole: Sole) -> Mark {
    let connection = &rung.serving.connection;
    let Some(lock) = failure.effect.lock else {
        return match (failure.effect.cooldown, connection.endpoint_rest) {
            (Cooldown::Model, _) => Mark::Failure { sole },
            (Cooldown::Endpoint, Some(rest)) => Mark::Endpoint { rest },
            // Endpoints that never rest: what passes by is the connection's own failure, but nothing is benched for one endpoint's 404.
            (Cooldown::Endpoint, None) if failure.effect.retries_same_rung() => Mark::Failure { sole },
            (Cooldown::Endpoint | Cooldown::None, _) => Mark::Nothing,
        };
    };
    let cause = match failure.verdict.class {
        Class::Auth => LockCause::Auth,
        Class::Billing => LockCause::Billing,
        _ => LockCause::RateLimited,
    };
    let length = match lock.length {
        LockLength::Told(length) | LockLength::Default(length) => Length::Told(length),
        LockLength::Doubling => Length::Doubling,
    };
    match lock.scope {
        Scope::Bucket => Mark::LockBucket { cause, length },
        Scope::Connection => {
            Mark::LockConnection { cause, length, credential_mark: Arc::clone(&connection.credential_mark) }
        }
    }
}
