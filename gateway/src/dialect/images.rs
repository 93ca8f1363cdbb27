//! Images that a caller names by URL, for upstreams that want them inline. Pure: somebody else fetches them.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::gemini::request::reads_itself;
use crate::canonical::request::{Part, Request, Source};

/// Fetched images, by URL.
#[derive(Debug, Default)]
pub struct Images(HashMap<String, Source>);

impl Images {
    /// Adds what lies behind a URL. `mime` is `image/png` and the like.
    pub fn add(&mut self, url: String, mime: &str, bytes: &[u8]) {
        self.0.insert(url, Source::Inline { mime: mime.to_owned(), data: STANDARD.encode(bytes) });
    }

    /// Puts them where their URLs stood.
    pub(super) fn place(&self, request: &mut Request) {
        if self.0.is_empty() {
            return;
        }
        for turn in &mut request.turns {
            self.place_in(&mut turn.parts);
        }
    }

    fn place_in(&self, parts: &mut [Part]) {
        for part in parts {
            match part {
                Part::Image(media) => {
                    if let Source::Url(url) = &media.source
                        && let Some(inline) = self.0.get(url)
                    {
                        media.source = inline.clone();
                    }
                }
                Part::ToolResult(result) => self.place_in(&mut result.content),
                Part::Text(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::Refusal(_) => {}
            }
        }
    }
}

/// The URLs of images that Google's upstreams do not read by themselves, each once, in order.
pub(super) fn behind_urls(request: &Request) -> Vec<String> {
    let mut urls = Vec::new();
    for turn in &request.turns {
        gather(&turn.parts, &mut urls);
    }
    urls
}

fn gather(parts: &[Part], urls: &mut Vec<String>) {
    for part in parts {
        match part {
            Part::Image(media) => {
                if let Source::Url(url) = &media.source
                    && !reads_itself(url)
                    && !urls.contains(url)
                {
                    urls.push(url.clone());
                }
            }
            Part::ToolResult(result) => gather(&result.content, urls),
            Part::Text(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::Refusal(_) => {}
        }
    }
}

/// The field of a body that is this very text.
pub(super) fn place_of(body: &Value, text: &str) -> Option<String> {
    let found = |step: &str, value: &Value| {
        let rest = place_of(value, text)?;
        Some(if rest.is_empty() { step.to_owned() } else { format!("{step}.{rest}") })
    };
    match body {
        Value::String(found) => (found == text).then(String::new),
        Value::Array(list) => list.iter().enumerate().find_map(|(nth, value)| found(&nth.to_string(), value)),
        Value::Object(map) => map.iter().find_map(|(name, value)| found(name, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::dialect::wanted::{Entry, Found, Wanted};
    use crate::dialect::{Api, Dialect};

    const CAT: &str = "https://example.com/cat.png";

    fn chat() -> Wanted {
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let content = json!([{"type": "text", "text": "see"}, image(CAT), image("https://youtu.be/x"), image(CAT)]);
        let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        Wanted::read(Entry::at(Api::Chat), Bytes::from(body.to_string())).unwrap()
    }

    #[test]
    fn only_upstreams_that_want_images_inline_need_them_fetched() {
        for to in [Dialect::Gemini, Dialect::CodeAssist] {
            assert_eq!(chat().needs_images(to), [CAT]);
        }
        for to in [Dialect::OpenAi, Dialect::Anthropic] {
            assert!(chat().needs_images(to).is_empty());
        }
    }

    #[test]
    fn fetched_images_stand_where_their_urls_stood_and_without_them_the_call_is_refused() {
        let mut images = Images::default();
        images.add(CAT.to_owned(), "image/png", b"png");
        let found = Found { images: Arc::new(images), ..Found::default() };
        for to in [Dialect::Gemini, Dialect::CodeAssist] {
            let call = chat().call(to, "gemini-x", "r", &found).unwrap();
            let body = String::from_utf8(call.body.to_vec()).unwrap();
            assert_eq!(body.matches(r#"{"inlineData":{"mimeType":"image/png","data":"cG5n"}}"#).count(), 2, "{body}");
            let refused = chat().call(to, "gemini-x", "r", &Found::default()).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("messages"));
        }
    }

    #[test]
    fn a_failure_names_the_field_of_the_caller() {
        let bad = chat().unfetched(CAT, "it redirects");
        assert_eq!(bad.field.as_deref(), Some("messages.0.content.1.image_url.url"));
        assert_eq!(bad.message, "'messages.0.content.1.image_url.url': the image cannot be fetched: it redirects.");
    }
}
