//! Settles the requests of replicas that died: their leases lapsed, and nobody else will.

use std::sync::Arc;
use std::time::Duration;

use shared::state::StateError;
use shared::state::settlement::SettleLapsed;
use tokio_util::sync::CancellationToken;

use crate::app::App;

/// How often a replica looks, less or more a fifth, so that replicas do not look together.
const EVERY: Duration = Duration::from_secs(4);
/// Between two accounts: the sweep of many accounts is spread out instead of a burst.
const BETWEEN: Duration = Duration::from_millis(2);

/// Looks until cancelled.
pub async fn run(app: Arc<App>, stop: CancellationToken) {
    loop {
        let pause = EVERY.mul_f64(rand::random_range(0.8..1.2));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        // Every step is idempotent: a sweep may stop anywhere.
        let swept = tokio::select! {
            () = stop.cancelled() => return,
            swept = sweep(&app) => swept,
        };
        if let Err(error) = swept {
            tracing::debug!(%error, "the sweep was cut short; the next one goes on");
        }
    }
}

async fn sweep(app: &App) -> Result<(), StateError> {
    for account in app.store.accounts().await? {
        for lapsed in app.store.lapsed(&account).await? {
            let outcome = app.store.settle_lapsed(&lapsed).await?;
            if matches!(outcome, SettleLapsed::Settled | SettleLapsed::Dropped) {
                app.metrics.lapsed_settled.inc();
                tracing::warn!(
                    request_id = %lapsed.request,
                    account = %lapsed.account,
                    key = %lapsed.key,
                    settled = outcome == SettleLapsed::Settled,
                    "a request whose replica is gone was closed"
                );
            }
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(())
}
