//! Tokens per minute of connections, as `acquire` and `record` are told of them: nothing where no connection has such a limit.

use super::Candidate;
use crate::limit::Weighed;
use crate::state::admission::Estimate;
use crate::state::keys::{ConnectionKeys, GroupKeys};
use crate::state::leases::milli;
use crate::state::script::Arg;

/// Two keys for each candidate that has a limit.
pub(super) fn keys(group: &GroupKeys, candidates: &[Candidate]) -> impl Iterator<Item = String> {
    let limited = candidates.iter().filter(|candidate| candidate.tpm.is_some());
    limited.flat_map(|candidate| of_connection(&group.of_connection(&candidate.connection)))
}

/// The keys of one limit.
pub(super) fn of_connection(connection: &ConnectionKeys) -> [String; 2] {
    [connection.tpm(), connection.tokens_held()]
}

/// The estimate, and every candidate's limit.
pub(super) fn args(estimate: &Estimate, candidates: &[Candidate]) -> Vec<Arg<'static>> {
    if candidates.iter().all(|candidate| candidate.tpm.is_none()) {
        return Vec::new();
    }
    let of = [Arg::Text(estimate.bound.as_str()), milli(estimate.input_milli), milli(estimate.output_milli)];
    let limits = candidates.iter().map(|candidate| Arg::Int(candidate.tpm.map_or(-1, i64::from)));
    of.into_iter().chain(limits).collect()
}

/// What an attempt used.
pub(super) fn used(tokens: Option<Weighed>) -> [Arg<'static>; 2] {
    tokens.map_or([Arg::Text(""), Arg::Text("")], |used| [milli(used.total_milli), milli(used.output_milli)])
}
