//! Waits, attempts, sizes, and the time limits of one upstream call.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::Value as Json;

use super::reader::{Reader, Value};
use super::scalar::ByteSize;
use super::section::{Field, draft, section};
use super::yaml::Node;
use crate::limit::{TokenWeights, Weight};

section! {
    /// How many upstream calls may be tried.
    pub struct Attempts, draft AttemptsDraft, check check_attempts {
        /// The most in one channel group; the endpoints of one rung count as one.
        group: NonZeroU32 = "3",
        /// The most in one request.
        request: NonZeroU32 = "6",
    }
}

draft! {
    /// How much a token of each class counts towards `tpm`.
    struct TokenWeightsDraft {
        /// Input that was read afresh.
        input: Weight = "1",
        /// Input that was read from a cache.
        cached_input: Weight = "0.1",
        /// Input that was written to a cache.
        cache_write: Weight = "1",
        /// Output.
        output: Weight = "1",
        /// Reasoning.
        reasoning: Weight = "1",
    }
}

section! {
    /// Waits, attempts and sizes.
    pub struct Limits, draft LimitsDraft, check check_limits {
        /// How long a request waits while its client key is at a limit; `0s` for not at all.
        key_wait: Duration = "2s",
        /// How long a request waits while every connection is full; `0s` for not at all.
        capacity_wait: Duration = "10s",
        /// How many upstream calls may be tried.
        attempts: Attempts = "{}",
        /// After this long one probe may try a locked connection, however long the lock.
        max_lock: Duration = "15m",
        /// The largest request body.
        body: ByteSize = "32MiB",
        /// How much a token of each class counts towards a `tpm`, of a client key or a connection.
        token_weights: TokenWeights = "{}",
    }
}

section! {
    /// Time limits of one upstream call.
    pub struct Timeouts, draft TimeoutsDraft, check check_timeouts {
        /// Until the connection stands.
        connect: Duration = "5s",
        /// Until the first content event.
        first_token: Duration = "60s",
        /// Between two events of a stream.
        idle: Duration = "60s",
        /// Until the response is complete.
        total: Duration = "15m",
    }
}

impl Value for TokenWeights {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = TokenWeightsDraft::read(node, reader)?;
        Some(Self {
            input: draft.input.value?,
            cached_input: draft.cached_input.value?,
            cache_write: draft.cache_write.value?,
            output: draft.output.value?,
            reasoning: draft.reasoning.value?,
        })
    }
    fn schema() -> Json {
        TokenWeightsDraft::schema()
    }
}

fn check_attempts(draft: &AttemptsDraft, reader: &mut Reader<'_>) {
    if let (Some(group), Some(request)) = (draft.group.value, draft.request.value)
        && group > request
    {
        let field = if draft.group.given { &draft.group.place } else { &draft.request.place };
        reader.fault(field, format!("{group} attempts in a group but {request} in a request"), "group <= request");
    }
}

fn check_limits(draft: &LimitsDraft, reader: &mut Reader<'_>) {
    above_zero(&draft.max_lock, reader);
}

fn check_timeouts(draft: &TimeoutsDraft, reader: &mut Reader<'_>) {
    for field in [&draft.connect, &draft.first_token, &draft.idle, &draft.total] {
        above_zero(field, reader);
    }
    let Some(total) = draft.total.value else { return };
    for field in [&draft.connect, &draft.first_token, &draft.idle] {
        if field.value.is_some_and(|part| part > total) {
            let place = if field.given { &field.place } else { &draft.total.place };
            reader.fault(place, format!("longer than the total of {total:?}"), "no part longer than total");
        }
    }
}

/// A duration that may be absent.
pub(super) trait Timed {
    /// True for a duration of zero.
    fn is_zero(&self) -> bool;
}

impl Timed for Duration {
    fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl Timed for Option<Duration> {
    fn is_zero(&self) -> bool {
        *self == Some(Duration::ZERO)
    }
}

/// Notes a time of zero where it makes no sense.
pub(super) fn above_zero<T: Timed>(field: &Field<T>, reader: &mut Reader<'_>) {
    if field.value.as_ref().is_some_and(Timed::is_zero) {
        reader.fault(&field.place, "found no time at all", "a duration above zero");
    }
}
