//! The model of a line, of a line with turns, and of a window.

use std::collections::BTreeMap;

use shared::state::capacity::Turn;

/// Who waits, in order, and until when each place lives.
#[derive(Debug, Default)]
pub(super) struct Line(Vec<(String, i64)>);

impl Line {
    /// How many live callers stand before, and whether this one stands.
    pub(super) fn ahead(&mut self, member: &str, now: i64) -> (usize, bool) {
        self.0.retain(|(_, end)| *end > now);
        match self.0.iter().position(|(other, _)| other == member) {
            Some(place) => (place, true),
            None => (self.0.len(), false),
        }
    }

    pub(super) fn stand(&mut self, member: &str, now: i64) {
        match self.0.iter_mut().find(|(other, _)| other == member) {
            Some(place) => place.1 = now + 2_000,
            None => self.0.push((member.to_owned(), now + 2_000)),
        }
    }

    pub(super) fn leave(&mut self, member: &str) {
        self.0.retain(|(other, _)| other != member);
    }

    pub(super) fn boundaries(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(|(_, end)| *end)
    }
}

/// Who waits where those who wait take turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    standing: Vec<Standing>,
    /// The last turn that was served.
    served: i64,
    /// The last turn of each that stands.
    last: BTreeMap<String, i64>,
}

#[derive(Debug)]
struct Standing {
    member: String,
    flow: String,
    turn: i64,
    place: (i64, i64),
    end: i64,
}

impl Turns {
    /// How many live callers stand before, or would; and the turn and place that are, or would be, its own.
    pub(super) fn ahead(&mut self, member: &str, whose: &Turn, now: i64) -> (usize, i64) {
        // In which order they leave makes no difference.
        let dead = self.standing.iter().filter(|one| one.end <= now).map(|one| one.member.clone());
        for member in dead.collect::<Vec<_>>() {
            self.leave(&member);
        }
        let (turn, place) = self.own(member, whose);
        let before = self.standing.iter().filter(|one| one.member != member && one.place < place);
        (before.count(), turn)
    }

    fn own(&self, member: &str, whose: &Turn) -> (i64, (i64, i64)) {
        if let Some(one) = self.standing.iter().find(|one| one.member == member) {
            return (one.turn, one.place);
        }
        let turn = self.served.max(self.last.get(&whose.to_string()).copied().unwrap_or(0)) + 1;
        let rank = turn + 4 * i64::from(whose.priority.get());
        let same = self.standing.iter().filter(|one| one.place.0 == rank).map(|one| one.place.1);
        (turn, (rank, same.max().map_or(0, |last| last + 1)))
    }

    pub(super) fn stand(&mut self, member: &str, whose: &Turn, now: i64) {
        let (turn, place) = self.own(member, whose);
        let end = now + 2_000;
        if let Some(one) = self.standing.iter_mut().find(|one| one.member == member) {
            one.end = end;
        } else {
            let flow = whose.to_string();
            self.last.insert(flow.clone(), turn);
            self.standing.push(Standing { member: member.to_owned(), flow, turn, place, end });
        }
    }

    /// Leaves unserved: those of its flow that came later move up, each to the place of the one before.
    pub(super) fn leave(&mut self, member: &str) {
        let Some(index) = self.standing.iter().position(|one| one.member == member) else { return };
        let mut gone = self.standing.remove(index);
        for one in self.standing[index..].iter_mut().filter(|one| one.flow == gone.flow) {
            std::mem::swap(&mut one.turn, &mut gone.turn);
            std::mem::swap(&mut one.place, &mut gone.place);
        }
        self.last.entry(gone.flow.clone()).and_modify(|last| *last -= 1);
        self.forget(&gone.flow);
    }

    /// A turn is served, if somebody stands: who had a place gives it up, and nobody moves.
    pub(super) fn serve(&mut self, member: &str, whose: &Turn, turn: i64) {
        if !self.standing.is_empty() {
            self.served = self.served.max(turn);
        }
        self.standing.retain(|one| one.member != member);
        self.forget(&whose.to_string());
    }

    /// Of a flow of which nobody stands nothing is kept.
    fn forget(&mut self, flow: &str) {
        if self.standing.iter().all(|one| one.flow != flow) {
            self.last.remove(flow);
        }
    }

    /// What must hold whatever happened: within a flow the order is that of arrival.
    pub(super) fn in_order(&self) -> bool {
        let later = |at: usize| self.standing[at + 1..].iter();
        let fine =
            |(at, one): (usize, &Standing)| later(at).all(|other| other.flow != one.flow || other.place > one.place);
        self.standing.iter().enumerate().all(fine)
    }

    pub(super) fn boundaries(&self) -> impl Iterator<Item = i64> {
        self.standing.iter().map(|one| one.end)
    }
}

/// Every admission there ever was.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// In ms, rounded up.
    stamps: Vec<i64>,
    /// As it was, in µs.
    times: Vec<i64>,
}

impl Window {
    /// Ms until there is room for one more, `ahead` others served first as soon as they can be.
    pub(super) fn wait(&self, cap: usize, now: i64, ahead: usize) -> i64 {
        // Play it through: each of those ahead is admitted at the first moment the window has room.
        let mut stamps = self.stamps.clone();
        let mut at = now;
        for _ in 0..=ahead {
            while stamps.iter().filter(|stamp| at - **stamp < 60_000).count() >= cap {
                let in_window = stamps.iter().filter(|stamp| at - **stamp < 60_000);
                at = in_window.min().copied().unwrap_or(at) + 60_000;
            }
            // Stamps never step back: one that was rounded up may lie just after the clock.
            stamps.push(at.max(stamps.last().copied().unwrap_or(at)));
        }
        // An entry of this very ms is stamped with the next: nobody is told more than the window for it.
        let wait = at - now;
        if ahead < cap && wait == 60_001 { 60_000 } else { wait }
    }

    pub(super) fn add(&mut self, us: i64) {
        self.stamps.push((us + 999).div_euclid(1000));
        self.times.push(us);
    }

    /// The most admissions in any 60 s that end now.
    pub(super) fn used(&self, now_us: i64) -> usize {
        self.times.iter().filter(|time| now_us - **time < 60_000_000).count()
    }

    pub(super) fn boundaries(&self) -> impl Iterator<Item = i64> {
        self.stamps.iter().rev().take(8).map(|stamp| stamp + 60_000)
    }
}
