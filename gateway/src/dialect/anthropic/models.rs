//! The list of models, for clients of this dialect.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

/// A model a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model<'a> {
    /// Its public name.
    pub name: &'a str,
    /// When it was released; `None`: nobody knows.
    pub created: Option<Timestamp>,
}

/// All models on one page, in the order given.
pub fn list(models: &[Model<'_>]) -> Bytes {
    let end = |model: Option<&Model<'_>>| model.map_or(Value::Null, |model| model.name.into());
    let page = json!({
        "data": models.iter().map(entry).collect::<Vec<Value>>(),
        "has_more": false,
        "first_id": end(models.first()),
        "last_id": end(models.last()),
    });
    Bytes::from(page.to_string())
}

/// One model.
pub fn one(model: &Model<'_>) -> Bytes {
    Bytes::from(entry(model).to_string())
}

/// An unknown release date is the epoch, as the vendor does it.
fn entry(model: &Model<'_>) -> Value {
    json!({
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": model.created.unwrap_or(Timestamp::UNIX_EPOCH).to_string(),
        "lifecycle": "active",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_page_in_the_order_given() {
        let created = Some("2026-01-02T03:04:05Z".parse().unwrap());
        let models = [Model { name: "b", created }, Model { name: "a \"1\"", created: None }];
        let page: Value = serde_json::from_slice(&list(&models)).unwrap();
        assert_eq!(
            page["data"][0],
            json!({"type": "model", "id": "b", "display_name": "b",
            "created_at": "2026-01-02T03:04:05Z", "lifecycle": "active"})
        );
        assert_eq!(page["data"][1]["created_at"], "1970-01-01T00:00:00Z");
        assert_eq!(
            (&page["first_id"], &page["last_id"], &page["has_more"]),
            (&json!("b"), &json!("a \"1\""), &json!(false))
        );
        let single: Value = serde_json::from_slice(&one(&models[1])).unwrap();
        assert_eq!(single, page["data"][1]);
    }

    #[test]
    fn an_empty_list_has_no_ends() {
        let page: Value = serde_json::from_slice(&list(&[])).unwrap();
        assert_eq!(page, json!({"data": [], "has_more": false, "first_id": null, "last_id": null}));
    }
}
