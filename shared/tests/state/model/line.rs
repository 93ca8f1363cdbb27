//! The model of a line and of a window.

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
