//! What a caller is told whose request is not admitted. Pure.

use std::time::Duration;

use jiff::Timestamp;
use shared::limit::{Amount, Cycle, Extent, Quota};
use shared::money::NanoDollars;
use shared::state::admission::Admit;

use super::FALLBACK;
use crate::error::{KeyFault, KeyLimit, QuotaUse, Refusal};

/// The refusal that an answer stands for. `quotas` are those of the key, in the order in which they were asked.
pub(super) fn refusal(answer: &Admit, quotas: &[Quota]) -> Refusal {
    match answer {
        Admit::Disabled => Refusal::Key(KeyFault::Unknown),
        Admit::NoBalance { .. } => Refusal::Balance,
        Admit::OverSpend { .. } => Refusal::SpendLimit,
        Admit::OverQuota { index, used, resets_ms, .. } => match quotas.get(*index) {
            Some(quota) => Refusal::Quota(quota_use(quota, *used, *resets_ms)),
            None => Refusal::StateUnavailable,
        },
        Admit::OverRate { wait, .. } => Refusal::OverRate { limit: KeyLimit::Requests, wait: *wait },
        Admit::OverTokens { wait, .. } => Refusal::OverRate { limit: KeyLimit::Tokens, wait: *wait },
        // Too many at once, for what is left of the spend limit or a quota.
        Admit::OverConcurrency { .. } | Admit::OverHolds { .. } => {
            Refusal::OverRate { limit: KeyLimit::Concurrency, wait: FALLBACK }
        }
        // A request id is fresh, so `already` cannot be; missing state is never read as "no limit".
        _ => Refusal::StateUnavailable,
    }
}

fn quota_use(quota: &Quota, used: i64, resets_ms: Option<i64>) -> QuotaUse {
    let dollars = |nanos| NanoDollars::new(nanos).unwrap_or(NanoDollars::MAX).to_string();
    let (what, used, limit) = match quota.amount {
        Amount::Requests(limit) => ("requests", used.to_string(), limit.to_string()),
        Amount::Tokens(limit) => ("tokens", used.to_string(), limit.to_string()),
        Amount::Cost(limit) => ("cost", dollars(used), limit.to_string()),
    };
    let period = match &quota.extent {
        Extent::Calendar(period) if period.cycle == Cycle::Total => None,
        Extent::Calendar(period) => Some(period.cycle.as_str().to_owned()),
        Extent::Sliding(window) => Some(length(*window)),
    };
    let resets = resets_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    QuotaUse { quota: what.to_owned(), period, used, limit, resets }
}

/// A length of time as the file would write it: `24h`, `1h30m`, `250ms`.
fn length(time: Duration) -> String {
    let ms = time.as_millis();
    let parts = [(ms / 3_600_000, "h"), (ms / 60_000 % 60, "m"), (ms / 1_000 % 60, "s"), (ms % 1_000, "ms")];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    shown.concat()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use shared::limit::Period;

    use super::*;

    fn told(amount: Amount, extent: Extent, used: i64, resets_ms: Option<i64>) -> String {
        let answer = Admit::OverQuota { index: 1, used, resets_ms };
        let other = Quota { amount: Amount::Tokens(NonZeroU64::MIN), extent: Extent::Sliding(Duration::ZERO) };
        let refusal = refusal(&answer, &[other, Quota { amount, extent }]);
        let fault = refusal.fault();
        assert_eq!((fault.status.as_u16(), fault.refusal), (403, Some("quota")));
        fault.message
    }

    #[test]
    fn a_used_up_quota_is_told_with_what_was_used_and_when_there_is_room_again() {
        let count = |count| NonZeroU64::new(count).unwrap();
        let start = "This API key has used up its quota: ";
        let day = Extent::Calendar(Period::utc(Cycle::Day));
        assert_eq!(
            told(Amount::Requests(count(10)), day, 10, Some(1_796_083_200_000)),
            format!("{start}10 of 10 requests per day. It starts afresh at 2026-12-01T00:00:00Z.")
        );
        let window = Extent::Sliding(Duration::from_mins(90));
        assert_eq!(
            told(Amount::Tokens(count(1_000)), window, 990, Some(1_796_083_200_000)),
            format!("{start}990 of 1000 tokens per 1h30m. It starts afresh at 2026-12-01T00:00:00Z.")
        );
        let cost = Amount::Cost(NanoDollars::new(1_500_000_000).unwrap());
        assert_eq!(
            told(cost, Extent::Calendar(Period::utc(Cycle::Total)), 1_400_000_000, None),
            format!("{start}$1.40 of $1.50 cost in all. It does not start afresh.")
        );
    }

    #[test]
    fn who_is_only_in_the_way_of_what_others_hold_may_come_again() {
        let fault = refusal(&Admit::OverHolds { position: None }, &[]).fault();
        assert_eq!((fault.status.as_u16(), fault.refusal), (429, Some("concurrency")));
        assert_eq!(fault.message, "This API key has reached its rate or concurrency limit.");
        assert!(fault.retry_after.is_some());
    }

    #[test]
    fn lengths_are_shown_as_the_file_writes_them() {
        for (ms, text) in [(86_400_000, "24h"), (5_400_000, "1h30m"), (60_000, "1m"), (1_250, "1s250ms")] {
            assert_eq!(length(Duration::from_millis(ms)), text);
        }
    }
}
