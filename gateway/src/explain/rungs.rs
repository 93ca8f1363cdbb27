//! Walks a ladder as a climb would, on what is known of its rungs: which is taken, which are passed over. Pure.

use std::time::Duration;

use shared::state::capacity::{LockCause, ProbeOf, RungState};
use shared::state::explain::RungView;

use super::ExplainedRung;
use crate::catalog::Catalog;
use crate::error::{Closed, Refusal};
use crate::flow::admit::FALLBACK;
use crate::flow::plan::{Ladder, Order, Rung, Step};

/// When a rung is tried at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In its turn.
    Ladder,
    /// Only for a request that was too long for a model before it.
    IfTooLong,
}

/// What would become of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The next request takes it.
    Taken,
    /// The next request takes it or one of its equals, drawn by weight.
    Drawn,
    /// It is open, but only tried when what is tried before it fails.
    Later,
    /// It is waited for, in its line.
    Waited,
    /// Its first endpoint is tried once though it rests: nothing else is left.
    LastResort,
    /// It is passed over.
    Skipped,
}

/// How a walk down the ladder ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walked {
    /// A rung is taken.
    Taken,
    /// The request stands in the lines of the rungs that are waited for, at most so long.
    Waits {
        /// How long.
        most: Duration,
    },
    /// All rungs are closed, but one may open soon: the request waits for that, at most so long.
    Opens {
        /// How long.
        most: Duration,
    },
    /// The first endpoint of one rung is tried though it rests.
    LastResort,
    /// The request is refused.
    Refused(Refusal),
}

/// The rungs of a step in the order they are offered; those that are drawn by weight as the file has them.
pub(super) fn ordered(step: &Step) -> Vec<&Rung> {
    let mut rungs: Vec<&Rung> = step.rungs.iter().collect();
    if step.order != Order::Listed {
        rungs.sort_by_key(|rung| rung.serving.connection.priority);
    }
    rungs
}

/// Every rung of the ladder with how it stands, in the order of `views`.
pub(super) fn in_order(ladder: &Ladder, views: Vec<RungView>) -> Vec<ExplainedRung> {
    let usual = ladder.steps.len();
    let steps = ladder.steps.iter().chain(&ladder.larger).enumerate();
    let rungs = steps.flat_map(|(index, step)| ordered(step).into_iter().map(move |rung| (index, rung)));
    let explained = rungs.zip(views).map(|((index, rung), view)| ExplainedRung {
        rung: rung.clone(),
        step: index + 1,
        part: if index < usual { Part::Ladder } else { Part::IfTooLong },
        fate: if view.state.is_none() { Fate::Later } else { Fate::Skipped },
        view,
    });
    explained.collect()
}

/// Walks down as a climb would, and says what becomes of each rung.
pub(super) fn walk(ladder: &Ladder, catalog: &Catalog, rungs: &mut [ExplainedRung]) -> Walked {
    let mut spilled = None;
    let mut first = 0;
    for run in ladder.runs() {
        let mut full = None;
        for (step, number) in run.iter().zip(first + 1..) {
            if take(step, rungs, number) {
                return Walked::Taken;
            }
            if rungs.iter().any(|rung| rung.step == number && is_full(rung)) {
                full = full.or(Some((step, number)));
            }
        }
        first += run.len();
        match full {
            Some((step, number)) if catalog.spills(&step.group) => spilled = spilled.or(Some(number)),
            Some((_, number)) => return wait(catalog, rungs, number),
            None => {}
        }
    }
    if let Some(number) = spilled {
        return wait(catalog, rungs, number);
    }
    let usual = |rung: &&mut ExplainedRung| rung.part == Part::Ladder;
    let mut closed = rungs.iter_mut().filter(usual);
    if let Some(rung) = closed.find(|rung| matches!(rung.view.state, Some(RungState::Endpoints { .. }))) {
        rung.fate = Fate::LastResort;
        return Walked::LastResort;
    }
    all_closed(catalog, rungs)
}

/// Takes the first open rung of a step, or all its equals where they are drawn. Whether there was one.
fn take(step: &Step, rungs: &mut [ExplainedRung], number: usize) -> bool {
    let priority = |rung: &ExplainedRung| rung.rung.serving.connection.priority;
    let mut open: Vec<&mut ExplainedRung> =
        rungs.iter_mut().filter(|rung| rung.step == number && rung.view.state.is_none()).collect();
    let Some(best) = open.first().map(|rung| priority(rung)) else { return false };
    let equals = match step.order {
        Order::Spread => open.iter().filter(|rung| priority(rung) == best).count(),
        Order::Listed | Order::Priority => 1,
    };
    let fate = if equals == 1 { Fate::Taken } else { Fate::Drawn };
    open.iter_mut().take(equals).for_each(|rung| rung.fate = fate);
    true
}

fn is_full(rung: &ExplainedRung) -> bool {
    matches!(rung.view.state, Some(RungState::Full | RungState::OverRate { .. } | RungState::OverTokens { .. }))
}

/// Until a rung that is only full is known to have room again.
fn room(rung: &ExplainedRung) -> Duration {
    match rung.view.state {
        Some(RungState::OverRate { wait } | RungState::OverTokens { wait }) => wait,
        _ => Duration::ZERO,
    }
}

/// Stands in the lines of a step, if that can help.
fn wait(catalog: &Catalog, rungs: &mut [ExplainedRung], number: usize) -> Walked {
    let most = catalog.limits.capacity_wait;
    let of_step = |rung: &&ExplainedRung| rung.step == number;
    let soonest = rungs.iter().filter(of_step).filter_map(|rung| closed_for(&rung.view)).min();
    let mut stood = false;
    for rung in rungs.iter_mut().filter(|rung| rung.step == number && is_full(rung)) {
        if !most.is_zero() && room(rung) <= most {
            (rung.fate, stood) = (Fate::Waited, true);
        }
    }
    if stood {
        Walked::Waits { most }
    } else {
        Walked::Refused(Refusal::NoCapacity { wait: soonest.unwrap_or(FALLBACK) })
    }
}

/// The time that is told of a rung; `None` for want of a slot, which may come at any moment.
pub(super) fn closed_for(view: &RungView) -> Option<Duration> {
    match view.state {
        None | Some(RungState::Full) => None,
        Some(
            RungState::Locked { wait, .. }
            | RungState::Cooling { wait }
            | RungState::Endpoints { wait }
            | RungState::Probing { wait, .. }
            | RungState::OverRate { wait }
            | RungState::OverTokens { wait },
        ) => Some(wait),
    }
}

/// Every rung is locked, cooling or being probed.
fn all_closed(catalog: &Catalog, rungs: &[ExplainedRung]) -> Walked {
    let usual = rungs.iter().filter(|rung| rung.part == Part::Ladder);
    let states: Vec<&RungState> = usual.clone().filter_map(|rung| rung.view.state.as_ref()).collect();
    let soonest = usual.filter_map(|rung| closed_for(&rung.view)).min().unwrap_or_default();
    let most = catalog.limits.capacity_wait;
    let probing = states.iter().any(|state| matches!(state, RungState::Probing { .. }));
    if !states.is_empty() && !most.is_zero() && (probing || soonest <= most) {
        return Walked::Opens { most: if probing { most } else { soonest } };
    }
    let limits = states.iter().all(|state| match state {
        RungState::Locked { cause, .. } => *cause != LockCause::Auth,
        RungState::Probing { of, .. } => *of == ProbeOf::Limits,
        RungState::Full | RungState::OverRate { .. } | RungState::OverTokens { .. } => true,
        RungState::Cooling { .. } | RungState::Endpoints { .. } => false,
    });
    let by = if limits { Closed::Limits } else { Closed::Failures };
    Walked::Refused(Refusal::AllClosed { by, wait: soonest.min(catalog.limits.max_lock) })
}
