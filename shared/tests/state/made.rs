//! Who made an answer that its upstream keeps.

use shared::state::made::Maker;

use super::table::*;

#[tokio::test]
async fn the_maker_of_an_answer_is_found_by_every_replica_for_a_day_since_it_was_last_asked_for() {
    let table = Table::new().await;
    let maker = Maker { account: table.account.clone(), connection: connection("a") };
    table.stores[0].remember_maker("resp_1", &maker).await.unwrap();
    let keys = table.command(&["KEYS", "hg:made:*"]).await;
    let keys: Vec<String> = redis::from_redis_value(keys).unwrap();
    assert!(keys.len() == 1 && !keys[0].contains("resp_1"), "{keys:?}");
    table.command(&["EXPIRE", &keys[0], "5"]).await;
    assert_eq!(table.stores[2].maker("resp_1").await.unwrap(), Some(maker));
    let left: u64 = table.text(&["TTL", &keys[0]]).await.parse().unwrap();
    assert!((86_000..=86_400).contains(&left), "{left}");
    assert_eq!(table.stores[1].maker("resp_2").await.unwrap(), None);
}
