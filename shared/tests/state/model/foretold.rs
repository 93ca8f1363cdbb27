//! What `explain` said just before an `acquire` of a newcomer is what that answered.

use proptest::prelude::*;
use shared::state::capacity::{Acquire, RungState};
use shared::state::explain::RungView;

/// Where somebody waits, whose turn comes first is for the line to say; everywhere else the two agree to the word.
pub(super) fn check(told: &[RungView], answer: &Acquire) -> Result<(), TestCaseError> {
    if told.iter().any(|rung| rung.waiting > 0) {
        return Ok(());
    }
    let first = told.iter().position(|rung| rung.state.is_none());
    match answer {
        Acquire::Acquired { index, probe, endpoint, .. } => {
            prop_assert_eq!(first, Some(*index));
            prop_assert_eq!((told[*index].probe, told[*index].endpoint), (*probe, *endpoint));
        }
        Acquire::Closed { states, .. } | Acquire::Full { states, .. } => {
            let expected: Vec<Option<RungState>> = states.iter().cloned().map(Some).collect();
            prop_assert_eq!(told.iter().map(|rung| rung.state.clone()).collect::<Vec<_>>(), expected);
        }
        Acquire::Pinned { .. } => prop_assert!(false, "nobody has a pin here"),
    }
    Ok(())
}
