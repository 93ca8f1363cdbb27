//! The list of models as Gemini's clients read it.

use bytes::Bytes;
use serde_json::{Value, json};

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// Conversations.
    Content,
    /// Embeddings.
    Embeddings,
}

/// All models of a list, in one page.
pub fn list<'a>(models: impl IntoIterator<Item = (&'a str, Serves)>) -> Bytes {
    let models: Vec<Value> = models.into_iter().map(|(name, serves)| entry(name, serves)).collect();
    json!({"models": models}).to_string().into()
}

/// One model.
pub fn one(name: &str, serves: Serves) -> Bytes {
    entry(name, serves).to_string().into()
}

fn entry(name: &str, serves: Serves) -> Value {
    let methods: &[&str] = match serves {
        Serves::Content => &["generateContent", "streamGenerateContent", "countTokens"],
        Serves::Embeddings => &["embedContent", "batchEmbedContents"],
    };
    json!({
        "name": format!("models/{name}"),
        "version": "001",
        "displayName": name,
        "supportedGenerationMethods": methods,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_listed_as_a_resource_with_its_methods() {
        let listed: Value =
            serde_json::from_slice(&list([("a/b", Serves::Content), ("e", Serves::Embeddings)])).unwrap();
        assert_eq!(listed["models"][0]["name"], "models/a/b");
        assert_eq!(listed["models"][0]["supportedGenerationMethods"][0], "generateContent");
        assert_eq!(listed["models"][1]["supportedGenerationMethods"], json!(["embedContent", "batchEmbedContents"]));
        let one: Value = serde_json::from_slice(&one("a/b", Serves::Content)).unwrap();
        assert_eq!(one, listed["models"][0]);
        assert_eq!(list([]), r#"{"models":[]}"#);
    }
}
