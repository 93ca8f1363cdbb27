//! What was explained as JSON, for scripts and the admin API. Times are in ms, money in nano-dollars. Pure.

use serde_json::{Value as Json, json};
use shared::state::capacity::{Probe, RungState};
use shared::state::survey::Closure;

use super::words::Where;
use super::{Admission, Amount, Explained, ExplainedRung, Limit, Part, Resets, Walked};
use crate::catalog::Owner;
use crate::error::Refusal;

impl Explained {
    /// All of it.
    pub fn json(&self) -> Json {
        let (admission, refusal) = match &self.admission {
            Admission::Admitted => ("admitted", None),
            Admission::Waits(refusal) => ("waits", Some(refusal)),
            Admission::Refused(refusal) => ("refused", Some(refusal)),
        };
        let wait = match &self.walked {
            Walked::Waits { most } | Walked::Opens { most } => Some(ms(*most)),
            Walked::Taken | Walked::LastResort | Walked::Refused(_) => None,
        };
        let closed = if let Walked::Refused(refusal) = &self.walked { Some(refusal) } else { None };
        json!({
            "account": self.account.as_str(),
            "key": self.key.as_str(),
            "asked": self.asked,
            "model": self.model.as_str(),
            "pool": self.pool.as_ref().map(shared::ids::PoolId::as_str),
            "limits": self.limits.iter().map(Limit::json).collect::<Vec<_>>(),
            "admission": {"outcome": admission, "refusal": refusal.map(refused)},
            "ladder": {"outcome": self.walked.as_str(), "wait_ms": wait, "refusal": closed.map(refused)},
            "rungs": self.rungs.iter().map(ExplainedRung::json).collect::<Vec<_>>(),
        })
    }
}

fn refused(refusal: &Refusal) -> Json {
    let fault = refusal.fault();
    json!({
        "word": refusal.word(),
        "status": fault.status.as_u16(),
        "message": fault.message,
        "retry_after_s": fault.retry_after,
    })
}

fn ms(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl Limit {
    fn json(&self) -> Json {
        let amount = |amount: Amount| match amount {
            Amount::Count(count) => json!(count),
            Amount::Money(amount) => json!(amount.nanos()),
        };
        let (resets_in, resets_at) = match self.resets {
            Resets::Unknown => (None, None),
            Resets::In(length) => (Some(ms(length)), None),
            Resets::At(at) => (None, Some(at)),
        };
        json!({
            "what": self.what,
            "period": self.period,
            "used": self.used.map(amount),
            "limit": self.limit.map(amount),
            "resets_in_ms": resets_in,
            "resets_at_ms": resets_at,
        })
    }
}

impl ExplainedRung {
    fn json(&self) -> Json {
        let serving = &self.rung.serving;
        let connection = &serving.connection;
        let owner = match &connection.owner {
            Owner::Platform => "platform",
            Owner::Account(account) => account.as_str(),
        };
        let endpoint = serving.endpoints.get(self.view.endpoint).filter(|_| self.view.state.is_none());
        let endpoints = serving.endpoints.iter().zip(&self.view.endpoints);
        json!({
            "step": self.step,
            "only_if_too_long": self.part == Part::IfTooLong,
            "model": self.rung.model.name.as_str(),
            "owner": owner,
            "group": connection.group.as_str(),
            "connection": connection.id.as_str(),
            "upstream_model": &*serving.upstream_model,
            "pool": serving.pool.as_ref().map(|pool| pool.id.as_str()),
            "bucket": serving.bucket.as_str(),
            "fate": self.fate.as_str(),
            "state": self.state(),
            "wait_ms": self.wait_ms(),
            "closed": self.closing().filter(|_| self.is_closed()).map(|(place, _)| place.as_str()),
            "reason": self.reason(),
            "probe": self.view.probe == Probe::Yes,
            "endpoint": endpoint.map(|endpoint| endpoint.id.as_str()),
            "endpoints": endpoints.map(|(endpoint, closure)| closure_json(endpoint.id.as_str(), closure)).collect::<Vec<_>>(),
            "live": self.view.live,
            "max_concurrent": connection.max_concurrent,
            "waiting": self.view.waiting,
            "rate_used": connection.rpm.map(|_| self.view.rate_used),
            "rpm": connection.rpm,
        })
    }

    fn is_closed(&self) -> bool {
        let state = self.view.state.as_ref();
        state.is_some_and(|state| {
            matches!(state, RungState::Locked { .. } | RungState::Cooling { .. } | RungState::Probing { .. })
        })
    }

    fn wait_ms(&self) -> Option<u64> {
        super::rungs::closed_for(&self.view).map(ms)
    }
}

impl Where {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Bucket => "bucket",
            Self::Model => "model",
        }
    }
}

fn closure_json(name: &str, closure: &Closure) -> Json {
    let (state, wait) = match closure {
        Closure::Open => ("open", None),
        Closure::Closed { wait, .. } => ("cooling", Some(ms(*wait))),
        Closure::Probing { wait, .. } => ("probing_failures", Some(ms(*wait))),
        Closure::ProbeDue => ("probe_due", None),
    };
    json!({"endpoint": name, "state": state, "wait_ms": wait})
}
