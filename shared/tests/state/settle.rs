//! `settle`: once per request id, to the nano-dollar, also for requests whose replica died.

use std::slice::from_ref;

use shared::money::{NanoDollars, Tokens};
use shared::state::admission::{AdmitAsk, Hold};
use shared::state::leases::{KeyLease, Progress};
use shared::state::ledger::{DaySum, DaySums, LedgerPlace};
use shared::state::records::{KeyRights, Money, Overdraft, SpendLimit};
use shared::state::settlement::{Basis, LapsedRequest, LedgerRow, Outcome, Settle, SettleLapsed, Settlement};

use super::table::*;

async fn limited(table: &Table, opening: i64, overdraft: Overdraft) {
    let spend = SpendLimit { limit: NanoDollars::MAX, period: "month".into(), zone: "UTC".into() };
    let rights = KeyRights { spend: Some(spend), max_concurrent: Some(9), ..KeyRights::default() };
    table.declare(Money::Limited { opening: nanos(opening) }, overdraft, rights).await;
}

async fn admit(table: &Table, name: &str, hold: i64) {
    let ask =
        AdmitAsk { hold: Hold::AtMost(nanos(hold)), span: Some(month("2033-05", 0, 100_000)), ..table.admit_ask(name) };
    let answer = table.store().admit(&ask).await.unwrap();
    assert!(matches!(answer, shared::state::admission::Admit::Admitted { .. }), "{answer:?}");
}

fn settlement(table: &Table, name: &str, cost: i64) -> Settlement {
    Settlement { span: Some(month("2033-05", 0, 100_000)), ..table.settlement(name, cost) }
}

fn row(rows: &[LedgerRow], field: &str) -> Vec<String> {
    rows.iter().map(|row| row.fields[field].clone()).collect()
}

#[tokio::test]
async fn a_request_is_settled_once_with_one_row_and_every_figure_moves_by_its_cost() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    admit(&table, "q1", 50).await;
    let ask = settlement(&table, "q1", 7);
    assert_eq!(
        table.store().settle(&ask).await.unwrap(),
        Settle::Settled { balance: Some(nanos(93)), charged: nanos(7) }
    );
    let dump = table.dump().await;
    for store in &table.stores {
        assert_eq!(store.settle(&ask).await.unwrap(), Settle::Already);
    }
    assert_eq!(table.dump().await, dump);
    assert_eq!(table.text(&["GET", "hg:{a:acme}:key:ci:spend:2033-05"]).await, "7");
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:reserved", "total"]).await, "0");
    assert_eq!(table.text(&["ZCARD", "hg:{a:acme}:key:ci:leases"]).await, "0");
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    assert_eq!(rows.len(), 1);
    let mut fields: Vec<_> = rows[0].fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
    fields.sort();
    let expected = "at=2000000000000 basis=exact cache_write=0 cached_input=0 connection=a cost=7 id=q1 input=10 key=ci \
                    model=m outcome=ok output=5 reasoning=0 served_model=m";
    assert_eq!(fields.join(" "), expected);
}

#[tokio::test]
async fn the_sums_of_a_day_stay_exact_when_rows_are_gone_and_a_late_request_counts_on_the_day_it_was_admitted() {
    let table = Table::new().await;
    limited(&table, 1_000, Overdraft::Soft).await;
    for (name, cost) in [("q1", 7), ("q2", 0), ("q3", 5)] {
        let mut ask = settlement(&table, name, cost);
        ask.tokens =
            Tokens { input: 1, cached_input: 2, cache_write_1h: 3, output: 4, output_audio: 5, ..Tokens::default() };
        if name == "q3" {
            ask.served_model = Some(model("n"));
            ask.admitted_ms = START + 86_400_000;
        }
        for store in &table.stores {
            store.settle(&ask).await.unwrap();
        }
    }
    // A replica died; its request is settled days later.
    admit(&table, "late", 50).await;
    let progress =
        Progress { cost: nanos(11), tokens: Tokens { input: 9, ..Tokens::default() }, ..Progress::default() };
    let lease = KeyLease { key: table.key.clone(), request: request("late"), progress };
    table.store().renew_keys(&table.account, &[lease]).await.unwrap();
    table.at(3 * 86_400_000).await;
    for lapsed in table.store().lapsed(&table.account).await.unwrap() {
        assert_eq!(table.store().settle_lapsed(&lapsed).await.unwrap(), SettleLapsed::Settled);
    }
    table.command(&["DEL", "hg:{a:acme}:ledger"]).await;
    let days = ["2033-05-18", "2033-05-19", "2033-05-20", "2033-05-21"].map(String::from);
    let sums = table.store().day_sums(&table.account, &days).await.unwrap();
    let sum = |requests, input, output, cost| DaySum { requests, input, output, cost: nanos(cost) };
    let of = |name| (table.key.clone(), model(name));
    assert_eq!(sums[0], DaySums::from([(of("m"), sum(3, 12 + 9, 18, 18))]));
    assert_eq!(sums[1], DaySums::from([(of("n"), sum(1, 6, 9, 5))]));
    assert!(sums[2].is_empty() && sums[3].is_empty(), "{sums:?}");
    assert!(table.text(&["PTTL", "hg:{a:acme}:day:2033-05-18"]).await.parse::<i64>().unwrap() > 39 * 86_400_000);
}

#[tokio::test]
async fn the_ledger_is_read_from_a_time_or_a_place_on_and_from_its_end() {
    let table = Table::new().await;
    limited(&table, 1_000, Overdraft::Soft).await;
    for (n, name) in ["q1", "q2", "q3", "q4"].into_iter().enumerate() {
        table.settle(name, i64::try_from(n).unwrap()).await;
    }
    let store = table.store();
    let ids = |rows: Vec<(LedgerPlace, LedgerRow)>| {
        rows.into_iter().map(|(_, row)| row.fields["id"].clone()).collect::<Vec<_>>()
    };
    let all = store.ledger_since(&table.account, 0, 10).await.unwrap();
    assert_eq!(ids(store.ledger_after(&table.account, &all[1].0, 10).await.unwrap()), ["q3", "q4"]);
    assert_eq!(ids(store.ledger_newest(&table.account, 3).await.unwrap()), ["q2", "q3", "q4"]);
    assert_eq!(ids(store.ledger_since(&table.account, i64::MAX, 10).await.unwrap()), [""; 0]);
    assert_eq!(ids(all), ["q1", "q2", "q3", "q4"]);
}

#[tokio::test]
async fn rare_token_classes_have_a_field_only_where_there_are_some_also_when_a_dead_replica_reported_them() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::Soft).await;
    admit(&table, "q1", 50).await;
    let mut ask = settlement(&table, "q1", 7);
    ask.tokens = Tokens { cache_write_1h: 304, output_audio: 8, ..ask.tokens };
    table.store().settle(&ask).await.unwrap();
    admit(&table, "q2", 50).await;
    let progress = Progress { tokens: Tokens { input_audio: 9, ..Tokens::default() }, ..Progress::default() };
    let lease = KeyLease { key: table.key.clone(), request: request("q2"), progress };
    table.store().renew_keys(&table.account, &[lease]).await.unwrap();
    table.at(20_000).await;
    for lapsed in table.store().lapsed(&table.account).await.unwrap() {
        table.store().settle_lapsed(&lapsed).await.unwrap();
    }
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    let rare = |row: &LedgerRow| {
        ["cache_write_1h", "input_audio", "output_audio"].map(|name| row.fields.get(name).cloned().unwrap_or_default())
    };
    assert_eq!([rare(&rows[0]), rare(&rows[1])], [["", "9", ""], ["304", "", "8"]]);
}

#[tokio::test]
async fn a_request_that_cost_nothing_has_its_row_and_moves_no_money() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::Soft).await;
    admit(&table, "q1", 50).await;
    let mut ask = settlement(&table, "q1", 0);
    ask.outcome = Outcome::RefusedAfterStart;
    ask.served_model = None;
    ask.connection = None;
    assert_eq!(
        table.store().settle(&ask).await.unwrap(),
        Settle::Settled { balance: Some(nanos(100)), charged: nanos(0) }
    );
    assert_eq!(table.text(&["EXISTS", "hg:{a:acme}:key:ci:spend:2033-05"]).await, "0");
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    assert_eq!(row(&rows, "outcome"), ["refused_after_start"]);
}

#[tokio::test]
async fn an_account_without_a_money_limit_gets_no_balance() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    table.admit("q1").await;
    assert_eq!(table.settle("q1", 7).await, Settle::Settled { balance: None, charged: nanos(7) });
    assert_eq!(table.text(&["EXISTS", "hg:{a:acme}:balance"]).await, "0");
}

#[tokio::test]
async fn a_request_redis_knows_nothing_of_is_settled_all_the_same() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    admit(&table, "q1", 50).await;
    table.command(&["DEL", "hg:{a:acme}:req:q1"]).await;
    let ask = settlement(&table, "q1", 7);
    assert_eq!(
        table.store().settle(&ask).await.unwrap(),
        Settle::Settled { balance: Some(nanos(93)), charged: nanos(7) }
    );
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:reserved", "total"]).await, "0", "its hold is free");
    assert_eq!(table.store().settle(&ask).await.unwrap(), Settle::Already);
}

/// What a row says was charged and waived.
fn charged(row: &LedgerRow) -> (&str, Option<&str>) {
    (&row.fields["cost"], row.fields.get("waived").map(String::as_str))
}

#[tokio::test]
async fn without_overdraft_no_more_is_charged_than_the_others_holds_leave_and_the_rest_is_waived() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    for (name, hold) in [("q1", 10), ("q2", 60), ("q3", 1)] {
        admit(&table, name, hold).await;
    }
    // 100 less the 61 of the others: more than it held, less than it cost.
    let settled = table.store().settle(&settlement(&table, "q1", 50)).await.unwrap();
    assert_eq!(settled, Settle::Settled { balance: Some(nanos(61)), charged: nanos(39) });
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:reserved", "total"]).await, "61");
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:req:q1", "cost"]).await, "39", "the receipt");
    // Nothing is left but the hold of the other.
    let settled = table.store().settle(&settlement(&table, "q3", 5)).await.unwrap();
    assert_eq!(settled, Settle::Settled { balance: Some(nanos(60)), charged: nanos(1) });
    let settled = table.store().settle(&settlement(&table, "q2", 60)).await.unwrap();
    assert_eq!(settled, Settle::Settled { balance: Some(nanos(0)), charged: nanos(60) });
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    let rows: Vec<_> = rows.iter().map(charged).collect();
    assert_eq!(rows, [("60", None), ("1", Some("4")), ("39", Some("11"))]);
    assert_eq!(table.text(&["GET", "hg:{a:acme}:key:ci:spend:2033-05"]).await, "100", "as the ledger");
    assert_eq!(table.store().settle(&settlement(&table, "q1", 50)).await.unwrap(), Settle::Already);
}

#[tokio::test]
async fn without_overdraft_a_request_that_holds_nothing_any_more_takes_nothing_from_the_others() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    admit(&table, "late", 50).await;
    table.at(15_000).await;
    let lapsed = table.store().lapsed(&table.account).await.unwrap();
    assert_eq!(table.store().settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Dropped);
    admit(&table, "free", 0).await;
    admit(&table, "q1", 90).await;
    for (name, left, charged) in [("late", 90, 10), ("free", 90, 0), ("unheard-of", 90, 0)] {
        let settled = table.store().settle(&settlement(&table, name, 30)).await.unwrap();
        assert_eq!(settled, Settle::Settled { balance: Some(nanos(left)), charged: nanos(charged) }, "{name}");
    }
}

#[tokio::test]
async fn with_overdraft_all_is_charged_and_nothing_waived() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::Soft).await;
    admit(&table, "q1", 10).await;
    let settled = table.store().settle(&settlement(&table, "q1", 150)).await.unwrap();
    assert_eq!(settled, Settle::Settled { balance: Some(nanos(-50)), charged: nanos(150) });
    let settled = table.store().settle(&settlement(&table, "unheard-of", 5)).await.unwrap();
    assert_eq!(settled, Settle::Settled { balance: Some(nanos(-55)), charged: nanos(5) });
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    assert_eq!(rows.iter().map(charged).collect::<Vec<_>>(), [("5", None), ("150", None)]);
}

#[tokio::test]
async fn a_large_waiver_stays_exact() {
    let table = Table::new().await;
    limited(&table, 9_007_199_254_740_001, Overdraft::None).await;
    admit(&table, "q1", 9_007_199_254_740_001).await;
    let settled = table.store().settle(&settlement(&table, "q1", 9_007_199_254_740_989)).await.unwrap();
    assert_eq!(settled, Settle::Settled { balance: Some(nanos(0)), charged: nanos(9_007_199_254_740_001) });
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    assert_eq!(charged(&rows[0]), ("9007199254740001", Some("988")));
}

#[tokio::test]
async fn the_period_of_the_admission_is_charged_whenever_it_settles() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::Soft).await;
    admit(&table, "old", 0).await;
    table.at(100_000).await;
    let june = month("2033-06", 100_000, 200_000);
    let mut new = table.settlement("new", 2);
    new.span = Some(june);
    table.store().settle(&new).await.unwrap();
    table.store().settle(&settlement(&table, "old", 3)).await.unwrap();
    for (label, spent) in [("2033-05", "3"), ("2033-06", "2")] {
        assert_eq!(table.text(&["GET", &format!("hg:{{a:acme}}:key:ci:spend:{label}")]).await, spent);
    }
    let mark = table.text(&["HGET", "hg:{a:acme}:key:ci", "spend_mark"]).await;
    assert_eq!(mark, "2033-06", "a late settlement does not turn the mark back");
}

#[tokio::test]
async fn large_amounts_stay_exact() {
    let table = Table::new().await;
    limited(&table, 9_007_199_254_740_991, Overdraft::Soft).await;
    admit(&table, "q1", 0).await;
    let ask = settlement(&table, "q1", 9_007_199_254_740_989);
    assert_eq!(
        table.store().settle(&ask).await.unwrap(),
        Settle::Settled { balance: Some(nanos(2)), charged: nanos(9_007_199_254_740_989) }
    );
    assert_eq!(table.text(&["GET", "hg:{a:acme}:key:ci:spend:2033-05"]).await, "9007199254740989");
}

#[tokio::test]
async fn a_dead_replicas_request_is_settled_once_at_its_last_progress() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    admit(&table, "q1", 50).await;
    table.at(5_000).await;
    let tokens = Tokens { input: 10, output: 3, ..Tokens::default() };
    let progress = Progress {
        served_model: Some(model("n")),
        connection: Some(connection("a")),
        tokens,
        cost: nanos(4),
        ..Progress::default()
    };
    let lease = KeyLease { key: table.key.clone(), request: request("q1"), progress };
    table.store().renew_keys(&table.account, from_ref(&lease)).await.unwrap();
    table.at(19_999).await;
    assert!(table.store().lapsed(&table.account).await.unwrap().is_empty());
    table.at(20_000).await;
    let lapsed = table.store().lapsed(&table.account).await.unwrap();
    let expected = LapsedRequest {
        account: table.account.clone(),
        key: table.key.clone(),
        request: request("q1"),
        admitted_ms: START,
        span: Some(month("2033-05", 0, 100_000)),
        quotas: Vec::new(),
    };
    assert_eq!(lapsed, [expected]);
    assert_eq!(table.stores[1].settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Settled);
    assert_eq!(table.stores[2].settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Already);
    assert_eq!(table.store().settle(&settlement(&table, "q1", 9)).await.unwrap(), Settle::Already);
    assert_eq!(table.store().renew_keys(&table.account, &[lease]).await.unwrap(), [request("q1")]);
    assert!(table.store().lapsed(&table.account).await.unwrap().is_empty());
    let rows = table.store().ledger(&table.account, 10).await.unwrap();
    assert_eq!(rows.len(), 1);
    let picked = ["cost", "basis", "outcome", "served_model", "connection", "output", "model", "key"];
    let seen: Vec<&str> = picked.iter().map(|field| rows[0].fields[*field].as_str()).collect();
    assert_eq!(seen, ["4", "estimated", "upstream_broken", "n", "a", "3", "m", "ci"]);
    assert_eq!(table.text(&["GET", "hg:{a:acme}:balance"]).await, "96");
    assert_eq!(table.text(&["GET", "hg:{a:acme}:key:ci:spend:2033-05"]).await, "4");
}

#[tokio::test]
async fn a_request_renewed_meanwhile_is_left_alone() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    admit(&table, "q1", 50).await;
    table.at(15_000).await;
    let lapsed = table.store().lapsed(&table.account).await.unwrap();
    let lease = KeyLease { key: table.key.clone(), request: request("q1"), progress: Progress::default() };
    table.store().renew_keys(&table.account, &[lease]).await.unwrap();
    let dump = table.dump().await;
    assert_eq!(table.store().settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Alive);
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn an_admission_whose_caller_gave_up_is_dropped_without_charge_or_row() {
    let table = Table::new().await;
    limited(&table, 100, Overdraft::None).await;
    admit(&table, "ghost", 50).await;
    table.at(15_000).await;
    let lapsed = table.store().lapsed(&table.account).await.unwrap();
    assert_eq!(table.store().settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Dropped);
    assert_eq!(table.store().settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Already);
    assert!(table.store().ledger(&table.account, 10).await.unwrap().is_empty());
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:reserved", "total"]).await, "0");
    assert_eq!(table.text(&["EXISTS", "hg:{a:acme}:req:ghost"]).await, "0");
    assert_eq!(table.text(&["GET", "hg:{a:acme}:balance"]).await, "100");
}

#[tokio::test]
async fn the_ledger_is_trimmed_and_a_row_names_how_it_is_known() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    for n in 0..3 {
        let mut ask = table.settlement(&format!("q{n}"), n);
        ask.basis = Basis::Estimated;
        ask.outcome = Outcome::ClientGone;
        table.store().settle(&ask).await.unwrap();
    }
    let rows = table.store().ledger(&table.account, 2).await.unwrap();
    assert_eq!(row(&rows, "id"), ["q2", "q1"], "newest first");
    assert_eq!(row(&rows, "basis"), ["estimated", "estimated"]);
    let start = std::time::Instant::now();
    let mut pipeline = redis::pipe();
    for _ in 0..10_300 {
        pipeline.cmd("XADD").arg("hg:{a:acme}:ledger").arg("*").arg("id").arg("x").ignore();
    }
    table.link.pipeline(&pipeline).await.unwrap();
    table.settle("last", 1).await;
    let length: i64 = table.text(&["XLEN", "hg:{a:acme}:ledger"]).await.parse().unwrap();
    assert!((10_000..10_200).contains(&length), "{length} rows after {:?}", start.elapsed());
}
