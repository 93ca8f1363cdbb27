//! `amend` and `open_account`: accounts and client keys made at run time.

use shared::ids::{KeyId, SecretHash};
use shared::limit::{Amount, Extent, Period, Priority, Quota};
use shared::state::admission::Admit;
use shared::state::records::{AccountRecord, KeyRecord, KeyRights, Money, MoneyLimit, Overdraft, SpendLimit};
use shared::state::roster::{Amend, KeyEntry, KeyStatus, NewAccount, OpenAccount, Source};

use super::table::*;

fn rights() -> KeyRights {
    KeyRights {
        rpm: Some(60),
        tpm: Some(1000),
        max_concurrent: Some(4),
        priority: Priority::new(2).unwrap(),
        spend: Some(SpendLimit { limit: nanos(10), period: "month".into(), zone: "Europe/Berlin".into() }),
        quotas: vec![
            Quota { amount: Amount::Requests(2.try_into().unwrap()), extent: Extent::Sliding(secs(90)) },
            Quota { amount: Amount::Cost(nanos(5)), extent: Extent::Calendar(Period::named("day", "Europe/Berlin")) },
        ],
        models: vec!["gpt-*".into()],
        byok: vec![connection("own-1"), connection("own-2")],
        platform_fallback: false,
        peers: true,
    }
}

fn key(name: &str) -> KeyId {
    KeyId::parse(name).unwrap()
}

async fn create(table: &Table, name: &str, rights: &KeyRights) -> Amend {
    let secret = SecretHash::of(&format!("secret of {name}"));
    table.store().create_key(&table.account, &key(name), (secret, rights)).await.unwrap()
}

async fn entry(table: &Table, name: &str) -> KeyEntry {
    table.stores[1].key_entry(&table.account, &key(name)).await.unwrap().unwrap()
}

/// Whether a caller who remembers this rev of the key is admitted.
async fn admit(table: &Table, name: &str, rev: &str, request: &str) -> Admit {
    let mut ask = table.admit_ask(request);
    ask.key = key(name);
    ask.secret = SecretHash::of(&format!("secret of {name}"));
    ask.rev = rev.into();
    table.stores[2].admit(&ask).await.unwrap()
}

async fn rev(table: &Table, name: &str) -> String {
    let found = table.store().look_up(SecretHash::of(&format!("secret of {name}"))).await.unwrap();
    found.unwrap().rev.to_string()
}

#[tokio::test]
async fn a_key_made_at_run_time_reads_back_as_it_was_written_and_works_at_once() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    assert_eq!(create(&table, "rt", &rights()).await, Amend::Amended);
    let made = entry(&table, "rt").await;
    assert_eq!((&made.rights, made.status, made.source), (&rights(), KeyStatus::Active, Source::Runtime));
    assert_eq!(made.created_ms, Some(START));
    let plain = KeyRights::default();
    assert_eq!(create(&table, "plain", &plain).await, Amend::Amended);
    assert!(matches!(admit(&table, "plain", &rev(&table, "plain").await, "q1").await, Admit::Admitted { .. }));
    let names: Vec<_> = table.store().key_entries(&table.account).await.unwrap();
    let names: Vec<_> = names.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(names, ["ci", "plain", "rt"]);
    let dump = table.dump().await;
    assert_eq!(create(&table, "rt", &plain).await, Amend::Exists, "its name is taken");
    assert_eq!(create(&table, "ci", &plain).await, Amend::Exists, "also by the file");
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn a_change_counts_for_who_remembers_the_key_and_replaces_every_limit() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    create(&table, "rt", &rights()).await;
    let before = rev(&table, "rt").await;
    let fewer = KeyRights { rpm: Some(1), ..KeyRights::default() };
    let made = entry(&table, "rt").await;
    assert_eq!(table.store().update_key(&table.account, &made, &fewer).await.unwrap(), Amend::Amended);
    assert_eq!(admit(&table, "rt", &before, "q1").await, Admit::Changed);
    assert!(matches!(admit(&table, "rt", &rev(&table, "rt").await, "q1").await, Admit::Admitted { .. }));
    assert!(matches!(admit(&table, "rt", &rev(&table, "rt").await, "q2").await, Admit::OverRate { .. }));
    assert_eq!(entry(&table, "rt").await.rights, fewer);
    let dump = table.dump().await;
    assert_eq!(
        table.store().update_key(&table.account, &made, &rights()).await.unwrap(),
        Amend::Changed,
        "a stale one"
    );
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn a_revoked_key_is_refused_from_that_moment_also_where_it_is_remembered_and_never_comes_back() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    create(&table, "rt", &KeyRights::default()).await;
    let known = rev(&table, "rt").await;
    assert_eq!(table.store().revoke_key(&table.account, &key("rt")).await.unwrap(), Amend::Amended);
    assert_eq!(admit(&table, "rt", &known, "q1").await, Admit::Disabled);
    assert_eq!(table.store().look_up(SecretHash::of("secret of rt")).await.unwrap(), None);
    let hash = SecretHash::of("secret of rt").to_hex();
    assert_eq!(table.text(&["EXISTS", &format!("hg:secret:{hash}")]).await, "0");
    let made = entry(&table, "rt").await;
    assert_eq!(made.status, KeyStatus::Revoked);
    let dump = table.dump().await;
    assert_eq!(table.store().revoke_key(&table.account, &key("rt")).await.unwrap(), Amend::Revoked);
    assert_eq!(table.store().update_key(&table.account, &made, &rights()).await.unwrap(), Amend::Revoked);
    assert_eq!(create(&table, "rt", &rights()).await, Amend::Exists);
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn keys_of_the_file_and_keys_that_are_not_there_are_left_alone() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    let dump = table.dump().await;
    let file = entry(&table, "ci").await;
    assert_eq!((file.source, file.created_ms), (Source::File, None));
    let store = table.store();
    assert_eq!(store.update_key(&table.account, &file, &rights()).await.unwrap(), Amend::FromFile);
    assert_eq!(store.revoke_key(&table.account, &key("ci")).await.unwrap(), Amend::FromFile);
    assert_eq!(store.revoke_key(&table.account, &key("none")).await.unwrap(), Amend::Missing);
    let nobody = "nobody".parse().unwrap();
    let made = store.create_key(&nobody, &key("k"), (SecretHash::of("s"), &rights())).await.unwrap();
    assert_eq!(made, Amend::NoAccount);
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn an_account_made_at_run_time_is_opened_once_and_outlives_reloads_of_the_file() {
    let table = Table::new().await;
    let store = table.store();
    let new = NewAccount {
        id: "acme".parse().unwrap(),
        opening: Some(nanos(25)),
        overdraft: Overdraft::None,
        residency: Some("eu".into()),
    };
    assert_eq!(store.open_account(&new).await.unwrap(), OpenAccount::Opened);
    let there = store.account_entry(&new.id).await.unwrap().unwrap();
    let expected = (MoneyLimit::Limited, Overdraft::None, Some("eu"), Source::Runtime);
    assert_eq!((there.money, there.overdraft, there.residency.as_deref(), there.source), expected);
    create(&table, "rt", &KeyRights::default()).await;
    let dump = table.dump().await;
    assert_eq!(store.open_account(&new).await.unwrap(), OpenAccount::Exists(Source::Runtime));
    store.declare(&[]).await.unwrap();
    assert_eq!(table.dump().await, dump, "no file knows it");
    assert_eq!(table.text(&["GET", "hg:{a:acme}:balance"]).await, "25");
    assert!(matches!(admit(&table, "rt", &rev(&table, "rt").await, "q1").await, Admit::Admitted { .. }));
    assert_eq!(store.accounts().await.unwrap(), [new.id]);
    assert_eq!(store.account_entry(&"other".parse().unwrap()).await.unwrap(), None);
}

#[tokio::test]
async fn what_changes_of_an_account_in_the_file_is_noticed_by_who_remembers_its_run_time_keys() {
    let table = Table::new().await;
    table.declare_rights(KeyRights::default()).await;
    create(&table, "rt", &KeyRights::default()).await;
    let known = rev(&table, "rt").await;
    table.declare_rights(KeyRights { rpm: Some(9), ..KeyRights::default() }).await;
    assert_eq!(rev(&table, "rt").await, known, "nothing that concerns it");
    let file = KeyRecord { id: table.key.clone(), secret: table.secret, rights: KeyRights::default() };
    let limited = AccountRecord {
        id: table.account.clone(),
        money: Money::Limited { opening: nanos(5) },
        overdraft: Overdraft::Soft,
        residency: None,
        keys: vec![file],
    };
    table.store().declare(std::slice::from_ref(&limited)).await.unwrap();
    assert_eq!(admit(&table, "rt", &known, "q1").await, Admit::Changed);
    let new = rev(&table, "rt").await;
    table.store().declare(&[limited]).await.unwrap();
    assert_eq!(rev(&table, "rt").await, new, "the same again changes nothing");
    assert!(matches!(admit(&table, "rt", &new, "q1").await, Admit::Admitted { .. }));
}
