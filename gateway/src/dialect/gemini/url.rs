//! The model and the method, which Gemini puts into the path: `models/{model}:{method}`.

use super::stream::Framing;
use crate::dialect::Answer;

/// What is asked of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `generateContent`, or `streamGenerateContent` for a stream.
    Generate(Answer),
    /// `countTokens`.
    CountTokens,
    /// `embedContent`.
    EmbedContent,
    /// `batchEmbedContents`.
    BatchEmbedContents,
}

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The model, without `models/`.
    pub model: String,
    /// What is asked of it.
    pub method: Method,
}

impl Method {
    /// Its word in the path.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Generate(Answer::Whole) => "generateContent",
            Self::Generate(Answer::Stream) => "streamGenerateContent",
            Self::CountTokens => "countTokens",
            Self::EmbedContent => "embedContent",
            Self::BatchEmbedContents => "batchEmbedContents",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [
            Self::Generate(Answer::Whole),
            Self::Generate(Answer::Stream),
            Self::CountTokens,
            Self::EmbedContent,
            Self::BatchEmbedContents,
        ]
        .into_iter()
        .find(|method| method.as_str() == word)
    }
}

/// Reads what follows `/v1beta/` in a path, percent-decoded. `None` if it is no method of a model.
pub fn call(path: &str) -> Option<Call> {
    let (model, word) = path.rsplit_once(':')?;
    let model = model.strip_prefix("models/").unwrap_or(model);
    let method = Method::of(word)?;
    (!model.is_empty()).then(|| Call { model: model.to_owned(), method })
}

/// How the caller of a stream wants it: events for `alt=sse`, else a JSON array.
pub fn framing(query: Option<&str>) -> Framing {
    let is_sse = |pair: &str| pair.split_once('=').is_some_and(|(name, value)| name.ends_with("alt") && value == "sse");
    if query.is_some_and(|query| query.split('&').any(is_sse)) { Framing::Sse } else { Framing::Array }
}

/// What follows the base URL of an upstream (`https://…/v1beta`), query included. Streams are always asked for as events.
pub fn path(upstream_model: &str, method: Method) -> String {
    let query = if method == Method::Generate(Answer::Stream) { "?alt=sse" } else { "" };
    format!("/{}:{}{query}", resource(upstream_model), method.as_str())
}

/// A model as a resource name: `models/x` unless its collection is named already.
pub fn resource(model: &str) -> String {
    const COLLECTIONS: [&str; 6] = ["models/", "tunedModels/", "publishers/", "projects/", "endpoints/", "dynamic/"];
    if COLLECTIONS.iter().any(|collection| model.starts_with(collection)) {
        model.to_owned()
    } else {
        format!("models/{model}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_model_and_method() {
        let read = |path: &str| call(path).map(|call| (call.model, call.method));
        assert_eq!(
            read("models/gemini-3-pro:generateContent"),
            Some(("gemini-3-pro".into(), Method::Generate(Answer::Whole)))
        );
        assert_eq!(
            read("models/a:b/c:streamGenerateContent"),
            Some(("a:b/c".into(), Method::Generate(Answer::Stream)))
        );
        assert_eq!(read("models/x:batchEmbedContents"), Some(("x".into(), Method::BatchEmbedContents)));
        for wrong in ["", "models", "models/x", "models/:countTokens", "models/x:predict", "models/x:"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_stream_is_an_array_unless_events_are_asked_for() {
        assert_eq!(framing(Some("alt=sse")), Framing::Sse);
        assert_eq!(framing(Some("key=k&$alt=sse")), Framing::Sse);
        assert_eq!(framing(Some("alt=json")), Framing::Array);
        assert_eq!(framing(None), Framing::Array);
    }

    #[test]
    fn an_upstream_path_keeps_a_named_collection() {
        let stream = Method::Generate(Answer::Stream);
        assert_eq!(path("gemini-3-pro", stream), "/models/gemini-3-pro:streamGenerateContent?alt=sse");
        assert_eq!(path("publishers/google/models/g", Method::CountTokens), "/publishers/google/models/g:countTokens");
    }
}
