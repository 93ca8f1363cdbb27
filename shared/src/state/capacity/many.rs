//! `acquire` among more candidates than one call takes.

use std::time::Duration;

use super::{Acquire, AcquireAsk, CANDIDATES_MAX, Candidate, LeaveAsk};
use crate::state::Store;
use crate::state::admission::Place;
use crate::state::link::StateError;

impl Store {
    /// Asks for the candidates in several calls, in their order.
    pub(super) async fn acquire_of_many(&self, ask: &AcquireAsk) -> Result<Acquire, StateError> {
        // One call sees only its own chunk: a slot that a lost reply left in a later one must be found first, then the preferred
        // connection.
        let (held, preferred) = self.look_ahead(ask).await?;
        if let (None, Some(index)) = (held, preferred) {
            match self.acquire_chunk(ask, &ask.candidates[index..=index]).await? {
                acquired @ Acquire::Acquired { .. } => return self.acquired_of_many(ask, acquired.at(index)).await,
                pinned @ Acquire::Pinned { .. } => return Ok(pinned),
                Acquire::Full { .. } | Acquire::Closed { .. } => {}
            }
        }
        let first = held.map_or(0, |index| index / CANDIDATES_MAX);
        let mut merged: Option<Acquire> = None;
        for (chunk, candidates) in ask.candidates.chunks(CANDIDATES_MAX).enumerate().skip(first) {
            let answer = self.acquire_chunk(ask, candidates).await?;
            if let Acquire::Acquired { index, .. } = answer {
                return self.acquired_of_many(ask, answer.at(chunk * CANDIDATES_MAX + index)).await;
            }
            if let Acquire::Pinned { .. } = answer {
                return Ok(answer);
            }
            merged = Some(match merged {
                None => answer,
                Some(before) => before.merge(answer),
            });
        }
        Ok(merged.unwrap_or(Acquire::Closed { wait: Duration::ZERO, states: Vec::new() }))
    }

    /// Gives up the places in lines that the one call which acquired did not see.
    async fn acquired_of_many(&self, ask: &AcquireAsk, acquired: Acquire) -> Result<Acquire, StateError> {
        if ask.place != Place::Pass || ask.pin.is_some() {
            self.leave_lines(&LeaveAsk::after(ask)).await?;
        }
        Ok(acquired)
    }

    /// Which of the candidates holds this very lease, and which the conversation prefers.
    async fn look_ahead(&self, ask: &AcquireAsk) -> Result<(Option<usize>, Option<usize>), StateError> {
        let group = self.keys.of_group(&ask.group);
        let lease = ask.lease.to_string();
        let mut pipeline = redis::pipe();
        for candidate in &ask.candidates {
            pipeline.zscore(group.of_connection(&candidate.connection).leases(), &lease);
        }
        if let Some(pin) = &ask.pin {
            pipeline.get(group.pin(pin.conversation));
        }
        let answers = self.link.pipeline(&pipeline).await?;
        let (scores, pinned) = answers.split_at(ask.candidates.len().min(answers.len()));
        let given_up =
            |candidate: &Candidate| ask.pin.as_ref().is_some_and(|pin| pin.given_up.contains(&candidate.connection));
        let prefers = |candidate: &Candidate| match pinned {
            [redis::Value::BulkString(name)] => name == candidate.connection.as_str().as_bytes(),
            _ => false,
        };
        let holds = scores.iter().position(|score| *score != redis::Value::Nil);
        Ok((holds, ask.candidates.iter().position(|candidate| prefers(candidate) && !given_up(candidate))))
    }
}
