//! What the fake upstream saw: the calls, how each ended, and how many were open at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Rules};

/// One call as the upstream saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its number since the start.
    pub id: u64,
    /// When it arrived, Unix milliseconds.
    pub at_ms: u64,
    /// HTTP method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// The credential, from whichever place carried it; empty if none did.
    pub credential: String,
    /// The model asked for; empty if the body names none.
    pub model: String,
    /// Header names (lower case) and values; several values are joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// The body as text.
    pub body: String,
    /// The place of the rule it took; absent for a healthy answer.
    pub rule: Option<usize>,
    /// The status it was answered with; absent while it waits or if the connection was aborted before.
    pub status: Option<u16>,
    /// Body frames handed to the network.
    pub frames: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// From arrival to its end, in ms; absent while it is open.
    pub duration_ms: Option<u64>,
    /// From arrival to the moment the client was seen to be gone, in ms.
    pub client_gone_ms: Option<u64>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not.
    Open,
    /// The whole answer was sent.
    Answered,
    /// A rule broke it off.
    BrokenOff,
    /// The client went away first.
    ClientGone,
}

/// Calls open now, at most at once, and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Peak {
    /// Open now: from arrival to the end of the answer or of the client.
    pub open: u64,
    /// Most at once since the last reset.
    pub peak: u64,
    /// All since the last reset.
    pub total: u64,
}

/// Peaks per credential, and per credential and model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Peaks {
    /// Over all credentials.
    pub all: Peak,
    /// By credential.
    pub credentials: BTreeMap<String, Peak>,
    /// By credential, then model.
    pub models: BTreeMap<String, BTreeMap<String, Peak>>,
}

/// Shared by the server, its control API and the in-process handle.
#[derive(Debug, Clone)]
pub(crate) struct State(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    rules: Rules,
    calls: VecDeque<Call>,
    log_limit: usize,
    next_id: u64,
    peaks: Peaks,
}

/// Keeps one call open until it is finished; dropped before that, the client is gone.
#[derive(Debug)]
pub(crate) struct Ticket {
    state: State,
    id: u64,
    credential: String,
    model: Option<String>,
    started: Instant,
    frames: u64,
    finished: bool,
}

impl Peak {
    fn enter(&mut self) {
        self.open += 1;
        self.total += 1;
        self.peak = self.peak.max(self.open);
    }

    fn leave(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    fn reset(&mut self) {
        self.peak = self.open;
        self.total = self.open;
    }
}

impl State {
    pub(crate) fn new(rules: Vec<Rule>, log_limit: usize) -> Self {
        let mut list = Rules::default();
        list.add(rules);
        let inner = Inner { rules: list, calls: VecDeque::new(), log_limit, next_id: 0, peaks: Peaks::default() };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a call; `call.id` and `call.at_ms` are filled in.
    pub(crate) fn open(&self, mut call: Call) -> Ticket {
        let mut inner = self.lock();
        call.id = inner.next_id;
        call.at_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(0));
        inner.next_id += 1;
        inner.peaks.all.enter();
        inner.peaks.credentials.entry(call.credential.clone()).or_default().enter();
        let (id, credential) = (call.id, call.credential.clone());
        inner.calls.push_back(call);
        while inner.calls.len() > inner.log_limit {
            inner.calls.pop_front();
        }
        drop(inner);
        let started = Instant::now();
        Ticket { state: self.clone(), id, credential, model: None, started, frames: 0, finished: false }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.lock().calls.iter().cloned().collect()
    }

    pub(crate) fn clear_calls(&self) {
        self.lock().calls.clear();
    }

    pub(crate) fn peaks(&self) -> Peaks {
        self.lock().peaks.clone()
    }

    /// Forgets the peaks; calls that are open stay counted.
    pub(crate) fn clear_peaks(&self) {
        let peaks = &mut self.lock().peaks;
        peaks.all.reset();
        peaks.credentials.values_mut().for_each(Peak::reset);
        peaks.models.values_mut().flat_map(BTreeMap::values_mut).for_each(Peak::reset);
    }

    pub(crate) fn replace_rules(&self, rules: Vec<Rule>) {
        self.lock().rules.replace(rules);
    }

    pub(crate) fn add_rules(&self, rules: Vec<Rule>) {
        self.lock().rules.add(rules);
    }
}

impl Inner {
    fn call(&mut self, id: u64) -> Option<&mut Call> {
        // The log is ordered by id without gaps, from the front's on.
        let first = self.calls.front()?.id;
        self.calls.get_mut(usize::try_from(id.checked_sub(first)?).ok()?)
    }
}

impl Ticket {
    /// The call's number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Notes model and body, now read, and takes the rule for this call.
    pub(crate) fn read(&mut self, model: &str, path: &str, body: String) -> Option<Rule> {
        let mut inner = self.state.lock();
        let models = inner.peaks.models.entry(self.credential.clone()).or_default();
        models.entry(model.to_owned()).or_default().enter();
        self.model = Some(model.to_owned());
        let taken = inner.rules.take(&self.credential, model, path);
        if let Some(call) = inner.call(self.id) {
            model.clone_into(&mut call.model);
            call.body = body;
            call.rule = taken.as_ref().map(|(place, _)| *place);
        }
        taken.map(|(_, rule)| rule)
    }

    /// Notes the status that is about to be sent.
    pub(crate) fn answering(&self, status: u16) {
        if let Some(call) = self.state.lock().call(self.id) {
            call.status = Some(status);
        }
    }

    /// Notes one frame handed to the network.
    pub(crate) fn sent_frame(&mut self) {
        self.frames += 1;
        if let Some(call) = self.state.lock().call(self.id) {
            call.frames = self.frames;
        }
    }

    /// Closes the call. Done before the last frame is handed over, so that a client's next call never overlaps with this one.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        if self.finished {
            return;
        }
        self.finished = true;
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut inner = self.state.lock();
        inner.peaks.all.leave();
        if let Some(peak) = inner.peaks.credentials.get_mut(&self.credential) {
            peak.leave();
        }
        if let Some(model) = &self.model
            && let Some(peak) = inner.peaks.models.get_mut(&self.credential).and_then(|models| models.get_mut(model))
        {
            peak.leave();
        }
        if let Some(call) = inner.call(self.id) {
            call.outcome = outcome;
            call.duration_ms = Some(elapsed);
            call.client_gone_ms = (outcome == Outcome::ClientGone).then_some(elapsed);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.finish(Outcome::ClientGone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(credential: &str) -> Call {
        Call {
            id: 0,
            at_ms: 0,
            method: "POST".into(),
            path: "/".into(),
            credential: credential.into(),
            model: String::new(),
            headers: BTreeMap::new(),
            body: String::new(),
            rule: None,
            status: None,
            frames: 0,
            outcome: Outcome::Open,
            duration_ms: None,
            client_gone_ms: None,
        }
    }

    #[test]
    fn a_ticket_counts_from_arrival_to_drop() {
        let state = State::new(Vec::new(), 10);
        let mut first = state.open(call("a"));
        let second = state.open(call("a"));
        first.read("m", "/", String::new());
        assert_eq!(state.peaks().credentials["a"], Peak { open: 2, peak: 2, total: 2 });
        assert_eq!(state.peaks().models["a"]["m"].open, 1);
        drop(second);
        state.clear_peaks();
        assert_eq!(state.peaks().credentials["a"], Peak { open: 1, peak: 1, total: 1 });
        first.finish(Outcome::Answered);
        drop(first);
        assert_eq!(state.peaks().all.open, 0);
        let outcomes: Vec<Outcome> = state.calls().iter().map(|call| call.outcome).collect();
        assert_eq!(outcomes, [Outcome::Answered, Outcome::ClientGone]);
    }

    #[test]
    fn the_log_keeps_the_newest_calls_and_old_tickets_end_quietly() {
        let state = State::new(Vec::new(), 2);
        let tickets: Vec<Ticket> = (0..3).map(|_| state.open(call("a"))).collect();
        drop(tickets);
        assert_eq!(state.calls().iter().map(|call| call.id).collect::<Vec<_>>(), [1, 2]);
    }
}
