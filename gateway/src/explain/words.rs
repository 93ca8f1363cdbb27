//! How rungs and their states are called. Pure.

use std::time::Duration;

use shared::state::capacity::{LockCause, Probe, ProbeOf, RungState};
use shared::state::survey::Closure;

use super::{ExplainedRung, Fate, Walked};

impl Fate {
    /// A word for machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Drawn => "drawn",
            Self::Later => "later",
            Self::Waited => "waited",
            Self::LastResort => "last_resort",
            Self::Skipped => "skipped",
        }
    }

    /// The same for people.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Drawn => "taken, by weight",
            Self::Later => "if those before fail",
            Self::Waited => "waited for",
            Self::LastResort => "once, as a last resort",
            Self::Skipped => "skipped",
        }
    }
}

impl Walked {
    /// A word for machines.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Waits { .. } => "waits",
            Self::Opens { .. } => "opens",
            Self::LastResort => "last_resort",
            Self::Refused(_) => "refused",
        }
    }
}

/// What closes a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// The whole connection.
    Connection,
    /// One bucket of it.
    Bucket,
    /// One model of it.
    Model,
}

impl ExplainedRung {
    /// The state in the word of `acquire`; `open` where it would be taken.
    pub fn state(&self) -> &'static str {
        match &self.view.state {
            None => "open",
            Some(RungState::Locked { cause, .. }) => cause.as_str(),
            Some(RungState::Cooling { .. }) => "cooling",
            Some(RungState::Endpoints { .. }) => "endpoints",
            Some(RungState::Probing { of: ProbeOf::Limits, .. }) => "probing_limits",
            Some(RungState::Probing { of: ProbeOf::Failures, .. }) => "probing_failures",
            Some(RungState::Full) => "full",
            Some(RungState::OverRate { .. }) => "over_rate",
            Some(RungState::OverTokens { .. }) => "over_tokens",
        }
    }

    /// The state and its reason for people.
    pub fn reason(&self) -> String {
        let text = match &self.view.state {
            None if self.view.probe == Probe::Yes => "open: the next attempt is its probe".to_owned(),
            None => "open".to_owned(),
            Some(RungState::Locked { cause, wait }) => {
                format!("locked ({}): {}, {}", cause.as_str(), self.closed(), length(*wait))
            }
            Some(RungState::Cooling { wait }) => {
                format!("cooling after failures: {}, {}", self.closed(), length(*wait))
            }
            Some(RungState::Endpoints { wait }) => format!("all endpoints rest, {}", length(*wait)),
            Some(RungState::Probing { wait, .. }) => {
                let about = self.cause().map_or("cooling after failures", LockCause::as_str);
                format!("a probe is under way ({about}: {}), at most {}", self.closed(), length(*wait))
            }
            Some(RungState::Full) => "full".to_owned(),
            Some(RungState::OverRate { wait }) => format!("over its rate, {}", length(*wait)),
            Some(RungState::OverTokens { wait }) => format!("over its tokens, {}", length(*wait)),
        };
        [Some(text), self.load(), self.chain()].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// What is used of the connection's own limits; nothing where it has none.
    fn load(&self) -> Option<String> {
        let connection = &self.rung.serving.connection;
        let slots = connection.max_concurrent.map(|most| format!("{} of {most} slots", self.view.live));
        let line = Some(self.view.waiting).filter(|waiting| *waiting > 0).map(|waiting| format!("{waiting} in line"));
        let rate = connection.rpm.map(|most| format!("{} of {most} a minute", self.view.rate_used));
        let parts: Vec<String> = [slots, line, rate].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// How each endpoint of a chain stands, and which would be called.
    fn chain(&self) -> Option<String> {
        let endpoints = &self.rung.serving.endpoints;
        if endpoints.len() < 2 {
            return None;
        }
        let told = endpoints.iter().zip(&self.view.endpoints).filter_map(|(endpoint, closure)| match closure {
            Closure::Open => None,
            Closure::Closed { wait, .. } => Some(format!("{} rests {}", endpoint.id, length(*wait))),
            Closure::Probing { wait, .. } => Some(format!("{} is probed, at most {}", endpoint.id, length(*wait))),
            Closure::ProbeDue => Some(format!("{} is due for a probe", endpoint.id)),
        });
        let mut parts: Vec<String> = told.collect();
        let calls = endpoints.get(self.view.endpoint).filter(|_| self.view.state.is_none());
        parts.extend(calls.map(|endpoint| format!("calls {}", endpoint.id)));
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What it is that is closed, by name.
    fn closed(&self) -> String {
        match self.closing() {
            Some((Where::Connection, _)) => "the whole connection".to_owned(),
            Some((Where::Bucket, _)) => format!("bucket {}", self.rung.serving.bucket),
            Some((Where::Model, _)) | None => format!("model {}", self.rung.serving.trust),
        }
    }

    fn cause(&self) -> Option<LockCause> {
        match self.closing()?.1 {
            Closure::Closed { cause, .. } | Closure::Probing { cause, .. } => *cause,
            Closure::Open | Closure::ProbeDue => None,
        }
    }

    /// Of the closures the one that is the reason: it ends last.
    pub(super) fn closing(&self) -> Option<(Where, &Closure)> {
        let view = &self.view;
        let all = [(Where::Connection, &view.lock), (Where::Bucket, &view.bucket_lock), (Where::Model, &view.cooldown)];
        let ends = |closure: &Closure| match closure {
            Closure::Closed { wait, .. } | Closure::Probing { wait, .. } => *wait,
            Closure::Open | Closure::ProbeDue => Duration::ZERO,
        };
        // Of equals the first, as in the script.
        all.into_iter().rev().filter(|(_, closure)| !ends(closure).is_zero()).max_by_key(|(_, closure)| ends(closure))
    }
}

/// A length of time for people, rounded up to the second; from two minutes to the minute.
pub fn length(wait: Duration) -> String {
    let seconds = wait.as_millis().div_ceil(1000);
    if seconds < 120 {
        return format!("{seconds} s");
    }
    let minutes = seconds.div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
