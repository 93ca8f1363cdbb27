//! Waiting for something to become true: by asking again, never by a fixed sleep.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until it is true; panics with `what` once the time is over.
pub async fn eventually(within: Duration, what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let ask = async || if probe().await { Ok(()) } else { Err(what) };
    eventually_ok(within, ask).await;
}

/// Asks until there is an answer, and gives it; panics with the last reason once the time is over.
pub async fn eventually_ok<T, E: Display>(within: Duration, mut probe: impl AsyncFnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + within;
    loop {
        match probe().await {
            Ok(answer) => return answer,
            Err(reason) if Instant::now() >= deadline => panic!("not within {within:?}: {reason}"),
            Err(_) => sleep(PAUSE).await,
        }
    }
}
