//! `credit`: once per receipt.

use shared::state::credit::Credit;

use super::table::*;

#[tokio::test]
async fn money_is_added_once_per_receipt_by_however_many_replicas() {
    let table = Table::new().await;
    let credit = async |replica: usize, receipt: &str, amount: i64| {
        table.stores[replica].credit(&table.account, &request(receipt), nanos(amount)).await.unwrap()
    };
    assert_eq!(credit(0, "r1", 25).await, Credit::Credited { balance: nanos(25) });
    for replica in 0..3 {
        assert_eq!(credit(replica, "r1", 25).await, Credit::Already { balance: nanos(25) });
    }
    assert_eq!(credit(1, "r2", -30).await, Credit::Credited { balance: nanos(-5) });
    assert_eq!(table.text(&["PTTL", "hg:{a:acme}:credit:r1"]).await, "-1", "a receipt is kept for ever");
}

#[tokio::test]
async fn a_balance_that_would_not_be_kept_exactly_is_refused() {
    let table = Table::new().await;
    let max = 9_007_199_254_740_991;
    let credit = async |receipt: &str, amount: i64| {
        table.store().credit(&table.account, &request(receipt), nanos(amount)).await.unwrap()
    };
    assert_eq!(credit("r1", max - 1).await, Credit::Credited { balance: nanos(max - 1) });
    assert_eq!(credit("r2", 2).await, Credit::TooLarge { balance: nanos(max - 1) });
    assert_eq!(credit("r2", 1).await, Credit::Credited { balance: nanos(max) }, "the receipt was not used up");
}
