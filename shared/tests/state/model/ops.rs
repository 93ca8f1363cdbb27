//! What is drawn by chance: the rules of a run and its calls.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shared::config::Fairness;
use shared::ids::AccountId;
use shared::limit::Priority;
use shared::state::admission::{Bound, Place};
use shared::state::capacity::{Length, LockCause, Mark, Sole, Turn};
use shared::state::records::Overdraft;
use shared::state::settlement::Upstream;

use super::{millis, secs};

/// What may vary between runs.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) rpm: u32,
    pub(super) cap: u32,
    pub(super) opening: i64,
    pub(super) spend_limit: i64,
    pub(super) tpm: Option<u32>,
    pub(super) quotas: Quotas,
    pub(super) overdraft: Overdraft,
    pub(super) max_lock: Duration,
    /// Whether accounts take turns.
    pub(super) fairness: Fairness,
    pub(super) connections: Vec<Limits>,
}

/// Of a connection: slots, attempts and tokens per minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) cap: Option<u32>,
    pub(super) rpm: Option<u32>,
    pub(super) tpm: Option<u32>,
}

/// The limits of the key's three quotas: tokens for ever, requests in 60 s, nano-dollars in 2 min.
#[derive(Debug, Clone)]
pub(super) struct Quotas {
    pub(super) tokens: i64,
    pub(super) requests: i64,
    pub(super) cost: i64,
}

/// What a request wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Nano-dollars; below zero: its model is free.
    pub(super) hold: i64,
    /// Tokens.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) bound: Bound,
}

/// What a request used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) cost: i64,
    /// Tokens.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) upstream: Upstream,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    /// The clock moves on.
    Wait {
        us: i64,
    },
    /// The clock moves to the n-th of the coming boundaries, give or take.
    Boundary {
        nth: usize,
        ms: i64,
    },
    Admit {
        call: Call,
        wish: Wish,
        place: Place,
    },
    LeaveKey {
        call: Call,
    },
    RenewKey {
        call: Call,
        used: Used,
    },
    Settle {
        call: Call,
        used: Used,
    },
    SettleLapsed {
        call: Call,
    },
    Credit {
        receipt: u8,
        amount: i64,
    },
    Acquire {
        call: Call,
        attempt: u32,
        wish: Wish,
        place: Place,
        reversed: bool,
        credential: u8,
        pin: Option<PinOp>,
    },
    Record {
        call: Call,
        lease: Pick,
        mark: Mark,
        used: Used,
        /// How many of the other connections are told of.
        siblings: usize,
        /// The conversation that a success binds.
        pin: Option<u8>,
    },
    RenewConnection {
        call: Call,
        lease: Pick,
    },
    LeaveGroup {
        call: Call,
    },
}

/// A conversation that may prefer a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct PinOp {
    pub(super) conversation: u8,
    pub(super) patience_ms: u64,
    pub(super) given_up: Option<usize>,
}

/// Which lease of a connection is meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pick {
    /// One of those that are held.
    Held { nth: usize },
    /// Any, held or not.
    Stray { attempt: u32, connection: usize },
}

/// Who calls for which request, and whether the reply gets lost once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) request: u8,
    pub(super) twice: bool,
}

pub(super) fn rules() -> impl Strategy<Value = Rules> {
    let limit = |max: u32| prop_oneof![1 => Just(None), 4 => (1..=max).prop_map(Some)];
    let tpm = prop_oneof![1 => Just(None), 1 => (1..80_u32).prop_map(Some)];
    let connection = (limit(2), limit(4), tpm).prop_map(|(cap, rpm, tpm)| Limits { cap, rpm, tpm });
    let overdraft = prop_oneof![Just(Overdraft::Soft), Just(Overdraft::None)];
    let max_lock = prop_oneof![Just(5), Just(60), Just(900)].prop_map(secs);
    let quotas =
        (20..300_i64, 2..8_i64, 10..120_i64).prop_map(|(tokens, requests, cost)| Quotas { tokens, requests, cost });
    let fairness = prop_oneof![3 => Just(Fairness::Account), 1 => Just(Fairness::Fifo)];
    let group = (max_lock, fairness, prop::collection::vec(connection, 1..4));
    let of_key = (1..6_u32, 1..4_u32, 1..60_i64, 5..80_i64, limit(40), quotas);
    (of_key, overdraft, group).prop_map(
        |((rpm, cap, opening, spend_limit, tpm, quotas), overdraft, (max_lock, fairness, connections))| Rules {
            rpm,
            cap,
            opening,
            spend_limit,
            tpm,
            quotas,
            overdraft,
            max_lock,
            fairness,
            connections,
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    (0..7_u8, prop::bool::weighted(0.3)).prop_map(|(request, twice)| Call { request, twice })
}

fn wish() -> impl Strategy<Value = Wish> {
    let hold = prop_oneof![Just(-1), 0..30_i64];
    let bound = prop_oneof![Just(Bound::Stated), Just(Bound::Assumed)];
    (hold, 0..9_u64, 0..40_u64, bound).prop_map(|(hold, input, output, bound)| Wish { hold, input, output, bound })
}

fn used() -> impl Strategy<Value = Used> {
    let upstream = prop_oneof![3 => Just(Upstream::Reached), 1 => Just(Upstream::Spared)];
    let tokens = || prop_oneof![1 => Just(0), 3 => 0..30_u64];
    (0..30_i64, tokens(), tokens(), upstream).prop_map(|(cost, input, output, upstream)| Used {
        cost,
        input,
        output,
        upstream,
    })
}

fn place() -> impl Strategy<Value = Place> {
    let wait = prop_oneof![Just(0), Just(2_000), Just(59_999), Just(60_000), Just(600_000)];
    prop_oneof![1 => Just(Place::Pass), 3 => wait.prop_map(|ms| Place::Stand { max_wait: millis(ms) })]
}

fn mark() -> impl Strategy<Value = Mark> {
    let length = prop_oneof![
        2 => Just(Length::Doubling),
        3 => prop_oneof![Just(1), Just(10), Just(60), Just(2_000)].prop_map(|s| Length::Told(secs(s))),
    ];
    let cause = prop_oneof![Just(LockCause::RateLimited), Just(LockCause::Billing), Just(LockCause::Auth)];
    prop_oneof![
        2 => Just(Mark::Nothing),
        2 => Just(Mark::Committed),
        4 => Just(Mark::Success { first_token: None }),
        6 => prop_oneof![Just(Sole::Yes), Just(Sole::No)].prop_map(|sole| Mark::Failure { sole }),
        3 => prop_oneof![Just(1), Just(10), Just(60)].prop_map(|s| Mark::Endpoint { rest: secs(s) }),
        2 => length.clone().prop_map(|length| Mark::LockBucket { cause: LockCause::RateLimited, length }),
        2 => (cause, length, 1..3_u8).prop_map(|(cause, length, credential)| {
            Mark::LockConnection { cause, length, credential_mark: credential_mark(credential) }
        }),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        9 => (0..8_usize).prop_map(|nth| Pick::Held { nth }),
        1 => (1..3_u32, 0..3_usize).prop_map(|(attempt, connection)| Pick::Stray { attempt, connection }),
    ]
}

fn pin() -> impl Strategy<Value = Option<PinOp>> {
    let patience = prop_oneof![Just(0), Just(1), Just(1_000), Just(59_999), Just(60_000)];
    let pin = (0..2_u8, patience, prop::option::weighted(0.2, 0..3_usize));
    prop::option::of(pin.prop_map(|(conversation, patience_ms, given_up)| PinOp {
        conversation,
        patience_ms,
        given_up,
    }))
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let wait = prop_oneof![0..3_000_i64, 0..3_000_000_i64, 0..70_000_000_i64];
    prop_oneof![
        4 => wait.prop_map(|us| Op::Wait { us }),
        6 => (0..12_usize, -1..=1_i64).prop_map(|(nth, ms)| Op::Boundary { nth, ms }),
        8 => (call(), wish(), place()).prop_map(|(call, wish, place)| Op::Admit { call, wish, place }),
        1 => call().prop_map(|call| Op::LeaveKey { call }),
        3 => (call(), used()).prop_map(|(call, used)| Op::RenewKey { call, used }),
        4 => (call(), used()).prop_map(|(call, used)| Op::Settle { call, used }),
        3 => call().prop_map(|call| Op::SettleLapsed { call }),
        1 => (0..3_u8, 1..50_i64).prop_map(|(receipt, amount)| Op::Credit { receipt, amount }),
        9 => (call(), 1..3_u32, wish(), place(), any::<bool>(), 1..3_u8, pin()).prop_map(
            |(call, attempt, wish, place, reversed, credential, pin)| Op::Acquire {
                call,
                attempt,
                wish,
                place,
                reversed,
                credential,
                pin,
            }
        ),
        9 => (call(), pick(), mark(), used(), 0..3_usize, prop::option::of(0..2_u8)).prop_map(
            |(call, lease, mark, used, siblings, pin)| Op::Record { call, lease, mark, used, siblings, pin }
        ),
        2 => (call(), pick()).prop_map(|(call, lease)| Op::RenewConnection { call, lease }),
        1 => call().prop_map(|call| Op::LeaveGroup { call }),
    ]
}

pub(super) fn credential_mark(number: u8) -> Arc<str> {
    format!("c{number}").into()
}

impl Call {
    /// Each request belongs to one replica.
    pub(super) fn replica(self) -> usize {
        usize::from(self.request) % 3
    }

    /// Two accounts, one of them with keys of several priorities.
    pub(super) fn turn(self, fairness: Fairness) -> Turn {
        let account = ["a", "b", "a", "b", "b", "a", "b"][usize::from(self.request)];
        let priority = [5, 5, 5, 5, 0, 5, 6][usize::from(self.request)];
        let account = (fairness == Fairness::Account).then(|| AccountId::parse(account).unwrap());
        Turn { account, priority: Priority::new(priority).unwrap() }
    }

    pub(super) fn times(self) -> usize {
        if self.twice { 2 } else { 1 }
    }
}
