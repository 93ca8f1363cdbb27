//! How many upstream calls one request may still make.

use shared::config::Attempts;

use crate::flow::plan::Step;

/// The calls of one climb.
#[derive(Debug)]
pub(super) struct Calls<'a> {
    most: &'a Attempts,
    made: Vec<Call<'a>>,
}

#[derive(Debug)]
struct Call<'a> {
    step: &'a Step,
    counts: Counts,
}

/// In which budgets a call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// In its group's and in the request's.
    Both,
    /// In the request's: the endpoints of one rung are one attempt in its group.
    Request,
    /// In none: a dead credential, which nobody will try again soon.
    None,
}

impl<'a> Calls<'a> {
    pub(super) fn new(most: &'a Attempts) -> Self {
        Self { most, made: Vec::new() }
    }

    /// A call of a rung.
    pub(super) fn count(&mut self, step: &'a Step) {
        self.made.push(Call { step, counts: Counts::Both });
    }

    /// A call of one more endpoint of the rung that was called last.
    pub(super) fn count_endpoint(&mut self, step: &'a Step) {
        self.made.push(Call { step, counts: Counts::Request });
    }

    /// The last call met a dead credential: it counts for nothing.
    pub(super) fn forgive(&mut self) {
        if let Some(last) = self.made.last_mut() {
            last.counts = Counts::None;
        }
    }

    /// The step that was called last.
    pub(super) fn last(&self) -> Option<&'a Step> {
        self.made.last().map(|call| call.step)
    }

    /// Whether the request may make no more calls.
    pub(super) fn request_spent(&self) -> bool {
        reached(self.made.iter().filter(|call| call.counts != Counts::None).count(), self.most.request.get())
    }

    /// Whether the request may make no more calls in the group of this step.
    pub(super) fn spent(&self, step: &Step) -> bool {
        let in_group = |call: &&Call<'_>| call.counts == Counts::Both && call.step.shares_attempts(step);
        self.request_spent() || reached(self.made.iter().filter(in_group).count(), self.most.group.get())
    }
}

fn reached(count: usize, most: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count >= most)
}
