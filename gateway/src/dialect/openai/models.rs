//! Lists of models, as OpenAI gives them.

use bytes::Bytes;
use serde_json::{Value, json};

/// The list of these models.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> Bytes {
    let data: Vec<Value> = names.into_iter().map(model).collect();
    json!({"object": "list", "data": data}).to_string().into()
}

/// One model.
pub fn one(name: &str) -> Bytes {
    model(name).to_string().into()
}

/// When a model was made is not known here; the SDKs want a number.
fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "headgate"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_is_what_the_sdks_read() {
        assert_eq!(
            list(["b", "a \"x\""]),
            r#"{"object":"list","data":[{"id":"b","object":"model","created":0,"owned_by":"headgate"},{"id":"a \"x\"","object":"model","created":0,"owned_by":"headgate"}]}"#
        );
        assert_eq!(list([]), r#"{"object":"list","data":[]}"#);
        assert_eq!(one("m"), r#"{"id":"m","object":"model","created":0,"owned_by":"headgate"}"#);
    }
}
