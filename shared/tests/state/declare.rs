//! `declare` and the look-up of callers.

use std::num::NonZeroU64;

use shared::ids::{KeyId, SecretHash};
use shared::limit::{Amount, Cycle, Extent, Period, Priority, Quota};
use shared::state::admission::Admit;
use shared::state::records::{
    AccountRecord, CallerRecord, KeyRecord, KeyRights, Money, MoneyLimit, Overdraft, SpendLimit,
};

use super::table::*;

fn full_rights() -> KeyRights {
    KeyRights {
        rpm: Some(60),
        tpm: Some(1000),
        max_concurrent: Some(4),
        priority: Priority::new(0).unwrap(),
        spend: Some(SpendLimit { limit: nanos(10), period: "month".into(), zone: "Europe/Berlin".into() }),
        quotas: vec![Quota {
            amount: Amount::Requests(NonZeroU64::MIN),
            extent: Extent::Calendar(Period::utc(Cycle::Day)),
        }],
        models: vec!["gpt-*".into(), "gemini-*".into()],
        byok: vec![connection("own-1"), connection("own-2")],
        platform_fallback: true,
        peers: true,
    }
}

fn account(table: &Table, keys: &[(&str, &str)]) -> AccountRecord {
    let keys = keys.iter().map(|(id, secret)| KeyRecord {
        id: KeyId::parse(id).unwrap(),
        secret: SecretHash::of(secret),
        rights: full_rights(),
    });
    AccountRecord {
        id: table.account.clone(),
        money: Money::Limited { opening: nanos(25) },
        overdraft: Overdraft::None,
        residency: Some("eu".into()),
        keys: keys.collect(),
    }
}

async fn caller(table: &Table, secret: &str) -> Option<CallerRecord> {
    table.stores[1].look_up(SecretHash::of(secret)).await.unwrap()
}

#[tokio::test]
async fn what_is_declared_is_found_by_its_secret() {
    let table = Table::new().await;
    table.store().declare(&[account(&table, &[("k1", "s1")])]).await.unwrap();
    let found = caller(&table, "s1").await.unwrap();
    let expected = CallerRecord {
        account: table.account.clone(),
        key: KeyId::parse("k1").unwrap(),
        rev: found.rev.clone(),
        rights: full_rights(),
        overdraft: Overdraft::None,
        money: MoneyLimit::Limited,
        residency: Some("eu".into()),
    };
    assert_eq!(found, expected);
    assert!(!found.rev.is_empty());
    assert_eq!(caller(&table, "unknown").await, None);
}

#[tokio::test]
async fn declaring_twice_changes_nothing_and_credits_the_opening_balance_once() {
    let table = Table::new().await;
    let file = [account(&table, &[("k1", "s1")])];
    table.store().declare(&file).await.unwrap();
    table.settle("q1", 5).await;
    table.command(&["HSET", "hg:{a:acme}:key:k1", "spend_mark", "2033-05"]).await;
    let rev = caller(&table, "s1").await.unwrap().rev;
    for store in &table.stores {
        store.declare(&file).await.unwrap();
    }
    assert_eq!(table.text(&["GET", "hg:{a:acme}:balance"]).await, "20");
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:key:k1", "spend_mark"]).await, "2033-05");
    assert_eq!(caller(&table, "s1").await.unwrap().rev, rev);
}

#[tokio::test]
async fn a_key_that_left_the_file_is_disabled_and_comes_back_with_it() {
    let table = Table::new().await;
    table.store().declare(&[account(&table, &[("k1", "s1"), ("k2", "s2")])]).await.unwrap();
    let mut ask = table.admit_ask("q1");
    ask.key = KeyId::parse("k2").unwrap();
    ask.secret = SecretHash::of("s2");
    ask.span = Some(month("2033-05", -1, 1000));
    ask.rev = caller(&table, "s2").await.unwrap().rev;
    table.store().declare(&[account(&table, &[("k1", "s1")])]).await.unwrap();
    assert_eq!(caller(&table, "s2").await, None);
    assert_eq!(table.store().admit(&ask).await.unwrap(), Admit::Disabled, "also for who knows it still");
    assert!(caller(&table, "s1").await.is_some());
    table.store().declare(&[account(&table, &[("k1", "s1"), ("k2", "s2")])]).await.unwrap();
    assert!(matches!(table.store().admit(&ask).await.unwrap(), Admit::Admitted { .. }));
    assert!(caller(&table, "s2").await.is_some());
}

#[tokio::test]
async fn the_keys_of_an_account_that_left_the_file_are_disabled_and_its_money_stays() {
    let table = Table::new().await;
    table.store().declare(&[account(&table, &[("k1", "s1")])]).await.unwrap();
    table.store().declare(&[]).await.unwrap();
    assert_eq!(caller(&table, "s1").await, None);
    assert_eq!(table.text(&["GET", "hg:{a:acme}:balance"]).await, "25");
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:account", "money"]).await, "limited");
}

#[tokio::test]
async fn a_key_made_at_run_time_is_left_alone() {
    let table = Table::new().await;
    table.command(&["HSET", "hg:{a:acme}:key:rt", "status", "active", "source", "runtime", "secret", "x"]).await;
    table.command(&["SADD", "hg:{a:acme}:keys", "rt"]).await;
    table.store().declare(&[account(&table, &[("k1", "s1")])]).await.unwrap();
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:key:rt", "status"]).await, "active");
}

#[tokio::test]
async fn a_new_secret_ends_the_old_one_and_a_dropped_limit_is_dropped() {
    let table = Table::new().await;
    table.store().declare(&[account(&table, &[("k1", "s1")])]).await.unwrap();
    let before = caller(&table, "s1").await.unwrap().rev;
    let mut file = account(&table, &[("k1", "new")]);
    file.keys[0].rights = KeyRights { rpm: Some(7), ..KeyRights::default() };
    table.store().declare(&[file]).await.unwrap();
    assert_eq!(caller(&table, "s1").await, None);
    let found = caller(&table, "new").await.unwrap();
    assert_eq!(found.rights, KeyRights { rpm: Some(7), ..KeyRights::default() });
    assert_ne!(found.rev, before);
    let old = table.text(&["EXISTS", &format!("hg:secret:{}", SecretHash::of("s1").to_hex())]).await;
    assert_eq!(old, "0");
}

#[tokio::test]
async fn a_change_of_the_account_changes_what_is_known_of_its_keys() {
    let table = Table::new().await;
    let mut file = account(&table, &[("k1", "s1")]);
    table.store().declare(std::slice::from_ref(&file)).await.unwrap();
    let before = caller(&table, "s1").await.unwrap().rev;
    file.residency = None;
    table.store().declare(&[file]).await.unwrap();
    assert_ne!(caller(&table, "s1").await.unwrap().rev, before);
}

#[tokio::test]
async fn a_secret_that_moves_to_another_key_leads_there() {
    let table = Table::new().await;
    table.store().declare(&[account(&table, &[("k1", "s1")])]).await.unwrap();
    table.store().declare(&[account(&table, &[("k2", "s1")])]).await.unwrap();
    assert_eq!(caller(&table, "s1").await.unwrap().key.as_str(), "k2");
}
