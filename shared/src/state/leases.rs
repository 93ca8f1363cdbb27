//! `renew`: are these leases still mine? Carries the progress of open requests.

use super::capacity::LeaseId;
use super::link::StateError;
use super::reply::Reply;
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, ConnectionId, GroupId, KeyId, ModelName, RequestId};
use crate::limit::Weighed;
use crate::money::{NanoDollars, Tokens};

/// At most so many leases go into one call: Redis runs nothing else meanwhile.
pub const RENEW_MAX: usize = 200;

/// A held slot of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLease {
    /// The connection.
    pub connection: ConnectionId,
    /// The lease.
    pub lease: LeaseId,
}

/// A held slot of a client key, and how far its request has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLease {
    /// The client key.
    pub key: KeyId,
    /// The request.
    pub request: RequestId,
    /// What it would be settled at if its replica died now.
    pub progress: Progress,
}

/// How far an open request has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// The model that answers, once known.
    pub served_model: Option<ModelName>,
    /// The connection that answers, once known.
    pub connection: Option<ConnectionId>,
    /// Tokens so far.
    pub tokens: Tokens,
    /// What they cost.
    pub cost: NanoDollars,
    /// What they count towards a limit of tokens per minute.
    pub weighed: Weighed,
}

impl Store {
    /// Renews slots of connections; answers the leases that are lost (taken back after they lapsed).
    pub async fn renew_connections(
        &self,
        group: &GroupId,
        leases: &[ConnectionLease],
    ) -> Result<Vec<LeaseId>, StateError> {
        let slot = self.keys.of_group(group);
        let mut lost = Vec::new();
        for chunk in leases.chunks(RENEW_MAX) {
            let keys: Vec<String> = chunk.iter().map(|held| slot.of_connection(&held.connection).leases()).collect();
            let ids: Vec<String> = chunk.iter().map(|held| held.lease.to_string()).collect();
            let mut args = vec![Arg::Text("connections")];
            args.extend(ids.iter().map(Arg::from));
            let indices = self.run_renew(&keys, &args).await?;
            lost.extend(indices.iter().filter_map(|index| Some(chunk.get(*index)?.lease.clone())));
        }
        Ok(lost)
    }

    /// Renews slots of client keys and notes the progress of their requests; answers the requests whose lease is lost
    /// (settled by someone else, or lapsed and the slot given to another).
    pub async fn renew_keys(&self, account: &AccountId, leases: &[KeyLease]) -> Result<Vec<RequestId>, StateError> {
        let slot = self.keys.of_account(account);
        let mut lost = Vec::new();
        for chunk in leases.chunks(RENEW_MAX) {
            let mut keys = Vec::with_capacity(chunk.len() * 3);
            let mut args = vec![Arg::Text("keys")];
            for held in chunk {
                let key = slot.of_key(&held.key);
                keys.extend([key.leases(), key.record(), slot.request(&held.request)]);
                let tokens = &held.progress.tokens;
                args.extend([
                    Arg::Text(held.request.as_str()),
                    Arg::Text(held.progress.served_model.as_ref().map_or("", ModelName::as_str)),
                    Arg::Text(held.progress.connection.as_ref().map_or("", ConnectionId::as_str)),
                ]);
                args.extend(token_args(tokens));
                args.push(Arg::Int(held.progress.cost.nanos()));
                args.extend(rare_token_args(tokens));
                args.push(milli(held.progress.weighed.total_milli));
            }
            let indices = self.run_renew(&keys, &args).await?;
            lost.extend(indices.iter().filter_map(|index| Some(chunk.get(*index)?.request.clone())));
        }
        Ok(lost)
    }

    /// Answers which of the leases, counted from 0, are lost.
    async fn run_renew(&self, keys: &[String], args: &[Arg<'_>]) -> Result<Vec<usize>, StateError> {
        let (tag, mut reply) = Reply::open("renew", self.link.run(&self.scripts.renew, keys, args).await?)?;
        if tag != "renewed" {
            return Err(reply.unknown(&tag));
        }
        let mut lost = Vec::new();
        while !reply.is_empty() {
            lost.push(reply.count()? as usize);
        }
        Ok(lost)
    }
}

/// Thousandths of tokens, as they are sent.
pub(super) fn milli(count: u64) -> Arg<'static> {
    Arg::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The token classes that every row of the ledger has, in its order.
pub(super) fn token_args(tokens: &Tokens) -> [Arg<'static>; 5] {
    [tokens.input, tokens.cached_input, tokens.cache_write, tokens.output, tokens.reasoning].map(count_arg)
}

/// Those that a row has only if there are some.
pub(super) fn rare_token_args(tokens: &Tokens) -> [Arg<'static>; 3] {
    [tokens.cache_write_1h, tokens.input_audio, tokens.output_audio].map(count_arg)
}

fn count_arg(count: u64) -> Arg<'static> {
    Arg::Int(i64::try_from(count).unwrap_or(i64::MAX).min((1 << 53) - 1))
}
