//! What follows from a class: lock, cooldown, and where the request goes next.

use std::time::Duration;

use super::{AUTH_LOCK, BILLING_LOCK, Class, ErrorPolicy, NAMED_LIMIT_LOCK, Scope, Told, Verdict};

/// Whose credential a connection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The deployment's own.
    Platform,
    /// The caller's own.
    Byok,
}

/// How many ways lead to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoints {
    /// One base URL.
    One,
    /// A chain of them, each of which rests by itself.
    Several,
}

/// What a connection is like, as far as consequences depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Whose credential it holds.
    pub owner: Owner,
    /// What a 403 or 404 means there.
    pub policy: ErrorPolicy,
    /// How many base URLs it has.
    pub endpoints: Endpoints,
}

/// A lock to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// What it closes.
    pub scope: Scope,
    /// For how long.
    pub length: LockLength,
}

/// How long a lock lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockLength {
    /// As the upstream said.
    Told(Duration),
    /// Our default for the class.
    Default(Duration),
    /// From [`super::BARE_LOCK_MIN`], doubling with each in a row up to [`super::BARE_LOCK_MAX`].
    Doubling,
}

/// Trust that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cooldown {
    /// None: the upstream is not to blame.
    None,
    /// Counts against connection:model, which cools after three within a minute.
    Model,
    /// Cools endpoint:model at once.
    Endpoint,
}

/// Where the request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nowhere: the caller is told.
    Tell,
    /// Nowhere: nobody is left to tell.
    Drop,
    /// To the next rung, at once.
    Rung,
    /// To an equal at once; before stepping down or giving up, once more to the same rung.
    RetryThenRung,
    /// To the rung's next endpoint, then to the next rung.
    Endpoint,
    /// To the rung's next endpoint; when none is left as [`Next::RetryThenRung`].
    EndpointThenRetry,
    /// To a configured larger model, else the caller is told.
    Larger,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// The lock to set, if any.
    pub lock: Option<Lock>,
    /// The trust that is lost.
    pub cooldown: Cooldown,
    /// Where the request goes.
    pub next: Next,
}

impl Effect {
    /// True when another rung may answer the request.
    pub fn fails_over(&self) -> bool {
        matches!(self.next, Next::Rung | Next::RetryThenRung | Next::Endpoint | Next::EndpointThenRetry)
    }

    /// True when the same rung may be asked once more before stepping down or giving up.
    pub fn retries_same_rung(&self) -> bool {
        matches!(self.next, Next::RetryThenRung | Next::EndpointThenRetry)
    }

    /// True when another endpoint of the rung may answer the request.
    pub fn tries_next_endpoint(&self) -> bool {
        matches!(self.next, Next::Endpoint | Next::EndpointThenRetry)
    }

    /// True when the caller is told at once.
    pub fn tells_caller(&self) -> bool {
        self.next == Next::Tell
    }
}

/// The consequences of a failure, from the failure table. A told time only lengthens or shortens a lock, it never makes one:
/// the classes without a lock have none whatever the upstream said. One too short for what the failure named counts as not told.
pub fn effect(verdict: &Verdict, told: Option<Told>, site: Site) -> Effect {
    let told = told.filter(|told| told.wait >= verdict.told_from);
    let lock = |default: LockLength| Lock {
        scope: told.map_or(verdict.scope, |told| told.scope.max(verdict.scope)),
        length: told.map_or(default, |told| LockLength::Told(told.wait)),
    };
    let none = |next| Effect { lock: None, cooldown: Cooldown::None, next };
    match (verdict.class, site.owner, site.policy) {
        (Class::RateLimited, ..) => {
            let default =
                if verdict.named_limit { LockLength::Default(NAMED_LIMIT_LOCK) } else { LockLength::Doubling };
            Effect { lock: Some(lock(default)), ..none(Next::Rung) }
        }
        (Class::Billing, ..) => Effect { lock: Some(lock(LockLength::Default(BILLING_LOCK))), ..none(Next::Rung) },
        (Class::Capacity | Class::Unavailable, ..) if site.endpoints == Endpoints::Several => {
            Effect { cooldown: Cooldown::Endpoint, ..none(Next::EndpointThenRetry) }
        }
        (Class::Capacity | Class::Unavailable, ..) => Effect { cooldown: Cooldown::Model, ..none(Next::RetryThenRung) },
        // Nobody tells when a credential heals, so a told time is not believed here.
        (Class::Auth, Owner::Platform, _) => Effect {
            lock: Some(Lock { scope: Scope::Connection, length: LockLength::Default(AUTH_LOCK) }),
            ..none(Next::Rung)
        },
        (Class::ModelMissing, _, ErrorPolicy::Sandbox) => {
            Effect { cooldown: Cooldown::Endpoint, ..none(Next::Endpoint) }
        }
        (Class::Auth, Owner::Byok, _) | (Class::ModelMissing | Class::ClientError, ..) => none(Next::Tell),
        (Class::ContextLength, ..) => none(Next::Larger),
        (Class::Refused, ..) => none(Next::Rung),
        (Class::Cancelled, ..) => none(Next::Drop),
    }
}
