//! What a caller wants: its request as it was put, which makes the call for an upstream of any dialect and brings the answer back in
//! the caller's own. Between two who speak alike the bytes pass; else everything goes through the common tongue. Pure.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::anthropic::count::Count;
use super::anthropic::headers::{self, Words};
use super::anthropic::request::{Purpose, Target, Thoughts as Whose};
use super::bound::Bound;
use super::code_assist::request::Envelope;
use super::gemini::stream::Framing;
use super::gemini::url::Method;
use super::images::{self, Images};
use super::openai_responses::request::Keeps;
use super::thoughts::{Gatherer, Restored, Thoughts, unproven};
use super::translate::{Cross, ReadEvents, StreamTranslation, WholeAnswer, WriteEvents};
use super::{Answer, Api, Dialect, anthropic, code_assist, conversation, gemini, openai, openai_responses};
use crate::canonical::request::Request;
use crate::canonical::response::Response;
use crate::error::{BadRequest, UpstreamError};

mod counts;
mod embeddings;

/// The headers of a caller that are words of its dialect, and so may go to an upstream of the same.
pub const WORDS: [&str; 3] = ["anthropic-version", "anthropic-beta", OPENAI_BETA];
const OPENAI_BETA: &str = "openai-beta";

/// Characters per token where nobody counts.
const CHARS_PER_TOKEN: u64 = 4;

/// What a route says of a request besides its body.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The API it came in by.
    pub api: Api,
    /// The model, where the path names it.
    pub path_model: String,
    /// How a Gemini caller wants its stream.
    pub framing: Framing,
    /// The caller's headers that are words of its dialect.
    pub words: HeaderMap,
    /// The caller's headers that may tell its conversation.
    pub signals: HeaderMap,
}

impl Entry {
    /// By an API whose path names nothing else.
    pub fn at(api: Api) -> Self {
        Self {
            api,
            path_model: String::new(),
            framing: Framing::Sse,
            words: HeaderMap::new(),
            signals: HeaderMap::new(),
        }
    }
}

/// What the flow needs to know of a request, whatever its dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The model as the caller wrote it.
    pub model: String,
    /// Whether a stream is asked for.
    pub answer: Answer,
    /// The most tokens each choice may have, if the caller says so.
    pub max_output_tokens: Option<u64>,
    /// How many choices are asked for.
    pub choices: u64,
    /// Bytes of the prompt: a base for estimating input tokens.
    pub prompt_chars: u64,
}

impl Look {
    /// About how many tokens the prompt and the longest answer take together.
    pub fn estimated_tokens(&self) -> u64 {
        let output = self.max_output_tokens.unwrap_or(0).saturating_mul(self.choices);
        self.prompt_chars.div_ceil(CHARS_PER_TOKEN).saturating_add(output)
    }
}

/// A request as its caller put it, checked.
#[derive(Debug)]
pub struct Wanted {
    entry: Entry,
    body: Bytes,
    look: Look,
    peek: Peek,
}

#[derive(Debug)]
enum Peek {
    Chat(openai::request::Peek),
    Responses(openai_responses::request::Peek),
    Embeddings(openai::embeddings::request::Peek),
    Messages(anthropic::request::Peek),
    Gemini(gemini::request::Peek),
}

/// An upstream call, connection and credential apart.
#[derive(Debug)]
pub struct UpstreamCall {
    /// What follows the base URL, query included.
    pub path: String,
    /// Headers the dialect needs.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What was looked up for a call: it is not in the caller's bytes.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// What upstreams thought before.
    pub thoughts: Thoughts,
    /// Images that the caller gave by URL.
    pub images: Arc<Images>,
}

impl UpstreamCall {
    fn to(path: impl Into<String>, body: Bytes) -> Self {
        Self { path: path.into(), headers: HeaderMap::new(), body }
    }
}

impl Wanted {
    /// Checks a body without taking it apart.
    pub fn read(entry: Entry, body: Bytes) -> Result<Self, BadRequest> {
        let (peek, look) = match entry.api {
            Api::Chat => {
                let peek = openai::request::peek(&body)?;
                let look = look(&peek.model, peek.answer, peek.max_output_tokens, peek.choices, peek.prompt_chars);
                (Peek::Chat(peek), look)
            }
            Api::Responses => {
                let peek = openai_responses::request::peek(&body)?;
                let look = look(&peek.model, peek.answer, peek.max_output_tokens, 1, peek.prompt_chars);
                (Peek::Responses(peek), look)
            }
            Api::Embeddings => {
                let peek = openai::embeddings::request::peek(&body)?;
                let look = look(&peek.model, Answer::Whole, Some(0), 1, peek.prompt_chars);
                (Peek::Embeddings(peek), look)
            }
            Api::Messages | Api::CountTokens => {
                let purpose = if entry.api == Api::Messages { Purpose::Message } else { Purpose::Count };
                let peek = anthropic::request::peek(&body, purpose)?;
                let look = look(&peek.model, peek.answer, peek.max_output_tokens, 1, peek.prompt_chars);
                (Peek::Messages(peek), look)
            }
            Api::Gemini(method) => {
                let peek = gemini::request::peek(&body, &entry.path_model, method)?;
                let look = look(&peek.model, peek.answer, peek.max_output_tokens, peek.choices, peek.prompt_chars);
                (Peek::Gemini(peek), look)
            }
        };
        Ok(Self { entry, body, look, peek })
    }

    /// What the flow needs to know.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// The API it came in by.
    pub fn api(&self) -> Api {
        self.entry.api
    }

    /// How a Gemini caller wants its stream.
    pub fn framing(&self) -> Framing {
        self.entry.framing
    }

    /// The conversation it belongs to. Looks through the whole body: only asked for where it makes a difference.
    pub fn conversation(&self) -> Option<conversation::Shown> {
        let converses = match self.api() {
            Api::Chat | Api::Responses | Api::Messages => true,
            Api::Gemini(method) => matches!(method, Method::Generate(_)),
            Api::Embeddings | Api::CountTokens => false,
        };
        if converses { conversation::read(&self.entry.signals, &self.body) } else { None }
    }

    /// What it goes on from, where that is kept by the upstream that made it.
    pub fn bound_to(&self) -> Option<&Bound> {
        match &self.peek {
            Peek::Responses(peek) => peek.bound_to.as_ref(),
            Peek::Gemini(peek) => peek.bound_to.as_ref(),
            Peek::Chat(_) | Peek::Embeddings(_) | Peek::Messages(_) => None,
        }
    }

    /// Whether upstreams of this dialect could keep what it goes on from.
    pub fn bound_within(&self, to: Dialect) -> bool {
        match &self.peek {
            Peek::Gemini(_) => matches!(to, Dialect::Gemini | Dialect::CodeAssist),
            _ => to == self.api().dialect(),
        }
    }

    /// The call for an upstream: made afresh from the caller's bytes every time. What the upstream's dialect cannot say is an error
    /// that names the caller's field.
    pub fn call(&self, to: Dialect, model: &str, request_id: &str, found: &Found) -> Result<UpstreamCall, BadRequest> {
        self.make(to, model, request_id, found).map_err(|bad| in_words_of(self.api(), bad))
    }

    /// The calls in the conversation whose [`Thoughts`] would be taken by an upstream of this dialect. None between two who speak
    /// alike: those carry them themselves.
    pub fn needs_thoughts(&self, to: Dialect) -> Vec<String> {
        let word: &[u8] = match (&self.peek, to) {
            (Peek::Messages(_), Dialect::Anthropic)
            | (Peek::Gemini(_), Dialect::Gemini | Dialect::CodeAssist)
            | (Peek::Embeddings(_), _)
            | (_, Dialect::OpenAi) => return Vec::new(),
            (Peek::Chat(_), _) => b"tool_calls",
            (Peek::Responses(_), _) => b"function_call",
            (Peek::Messages(_), _) => b"tool_use",
            // `functionCall` or `function_call`.
            (Peek::Gemini(_), _) => b"unction",
        };
        // A conversation without calls is not read twice.
        if self.embeds() || self.api().counts() || memchr::memmem::find(&self.body, word).is_none() {
            return Vec::new();
        }
        self.common().map_or_else(|_| Vec::new(), |request| unproven(&request, to))
    }

    /// The URLs of images that an upstream of this dialect wants inline, each once.
    pub fn needs_images(&self, to: Dialect) -> Vec<String> {
        let word: &[u8] = match (&self.peek, to) {
            (_, Dialect::OpenAi | Dialect::Anthropic) | (Peek::Embeddings(_) | Peek::Gemini(_), _) => {
                return Vec::new();
            }
            (Peek::Chat(_) | Peek::Responses(_), _) => b"image_url",
            (Peek::Messages(_), _) => b"image",
        };
        if memchr::memmem::find(&self.body, word).is_none() {
            return Vec::new();
        }
        self.common().map_or_else(|_| Vec::new(), |request| images::behind_urls(&request))
    }

    /// The fault of an image that could not be fetched, or of too many of them. It names the caller's own field.
    pub fn unfetched(&self, url: &str, why: &str) -> BadRequest {
        let place = serde_json::from_slice(&self.body).ok().and_then(|body| images::place_of(&body, url));
        let field = place.unwrap_or_else(|| "messages".to_owned());
        let message = format!("'{field}': the image cannot be fetched: {why}.");
        in_words_of(self.api(), BadRequest { field: Some(field.into()), code: Some("invalid_image_url"), message })
    }

    fn make(&self, to: Dialect, model: &str, request_id: &str, found: &Found) -> Result<UpstreamCall, BadRequest> {
        let body = &self.body;
        Ok(match (&self.peek, to) {
            (Peek::Chat(peek), Dialect::OpenAi) => {
                self.openai_call("/chat/completions", openai::request::splice(body, peek, model))
            }
            (Peek::Responses(peek), Dialect::OpenAi) => {
                self.openai_call("/responses", openai_responses::request::splice(body, peek, model))
            }
            (Peek::Embeddings(peek), Dialect::OpenAi) => {
                self.openai_call("/embeddings", openai::embeddings::request::splice(body, peek, model))
            }
            (Peek::Messages(peek), Dialect::Anthropic) => UpstreamCall {
                headers: headers::for_upstream(Words::Same(&self.entry.words)),
                ..UpstreamCall::to(self.messages_path(), anthropic::request::splice(body, peek, model))
            },
            (Peek::Gemini(peek), Dialect::Gemini) => {
                let path = gemini::url::path(model, peek.method);
                UpstreamCall::to(path, gemini::request::splice(body, peek, model))
            }
            (Peek::Gemini(peek), Dialect::CodeAssist) if matches!(peek.method, Method::Generate(_)) => {
                let method = code_assist::request::Method::Generate(self.look.answer);
                let wrapped = code_assist::request::wrap(body, model, &envelope(request_id));
                UpstreamCall::to(code_assist::request::path(method), wrapped)
            }
            _ if self.embeds() => self.embedding_call(to, model)?,
            _ if self.api().counts() => self.counting_call(to, model, found)?,
            _ => self.crossing_call(to, model, request_id, found)?,
        })
    }

    /// What is answered without asking an upstream of this dialect: a count of tokens where it cannot count.
    pub fn local_answer(&self, to: Dialect) -> Option<Bytes> {
        let counts = self.api().counts() && to == Dialect::OpenAi;
        counts.then(|| self.counted(Count::Estimated(self.look.prompt_chars.div_ceil(CHARS_PER_TOKEN))))
    }

    /// A whole answer of an upstream of this dialect, as the caller gets it.
    pub fn whole(
        &self,
        from: Dialect,
        content_type: Option<&str>,
        body: &Bytes,
        request_id: &str,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        let model = &self.look.model;
        match (&self.peek, from) {
            (Peek::Chat(_), Dialect::OpenAi) => openai::response::pass(content_type, body, model),
            (Peek::Responses(peek), Dialect::OpenAi) => {
                let whole = openai_responses::response::pass(content_type, body, model)?;
                Ok(WholeAnswer { made: whole.made.filter(|_| peek.keeps == Keeps::Yes), ..whole })
            }
            (Peek::Embeddings(_), Dialect::OpenAi) => openai::embeddings::response::pass(content_type, body, model),
            _ if self.api().counts() => self.counted_by(from, body),
            _ if self.embeds() => self.embedded_by(from, content_type, body),
            (Peek::Messages(_), Dialect::Anthropic) => {
                let whole = anthropic::response::check(content_type, body)?;
                let body = anthropic::response::splice_model(body, &whole, model);
                Ok(WholeAnswer { body, usage: whole.usage, output_chars: whole.output_chars, ..WholeAnswer::default() })
            }
            (Peek::Gemini(_), Dialect::Gemini) => {
                let whole = gemini::response::check(content_type, body)?;
                let body = gemini::response::splice_model(body, &whole, model);
                let (usage, output_chars, made) = (whole.usage, whole.output_chars, whole.continuation);
                Ok(WholeAnswer { body, usage, output_chars, made, ..WholeAnswer::default() })
            }
            (Peek::Gemini(_), Dialect::CodeAssist) => {
                let (body, whole) = code_assist::response::check(content_type, body)?;
                let body = gemini::response::splice_model(&body, &whole, model);
                let (usage, output_chars, made) = (whole.usage, whole.output_chars, whole.continuation);
                Ok(WholeAnswer { body, usage, output_chars, made, ..WholeAnswer::default() })
            }
            _ => self.crossed(from, content_type, body, request_id),
        }
    }

    /// What follows a stream of an upstream of this dialect.
    pub fn stream(&self, from: Dialect, request_id: &str) -> Box<dyn StreamTranslation> {
        let model = &self.look.model;
        match (&self.peek, from) {
            (Peek::Chat(peek), Dialect::OpenAi) => Box::new(openai::stream::Same::new(model, peek.usage_chunk)),
            (Peek::Responses(peek), Dialect::OpenAi) => {
                Box::new(openai_responses::stream::Same::new(model, peek.keeps))
            }
            (Peek::Messages(_), Dialect::Anthropic) => Box::new(anthropic::stream::Same::new(model)),
            (Peek::Gemini(_), Dialect::Gemini) => Box::new(gemini::stream::Same::new(self.entry.framing, model)),
            (Peek::Gemini(_), Dialect::CodeAssist) => {
                Box::new(code_assist::stream::Same::new(self.entry.framing, model))
            }
            _ => {
                let cross = Cross::new(self.reader(from), self.writer(request_id));
                Box::new(if proves(from) { cross.gathering(Gatherer::new(self.api().dialect())) } else { cross })
            }
        }
    }

    fn openai_call(&self, path: &str, body: Bytes) -> UpstreamCall {
        let mut call = UpstreamCall::to(path, body);
        if let Some(beta) = self.entry.words.get(OPENAI_BETA) {
            call.headers.insert(OPENAI_BETA, beta.clone());
        }
        call
    }

    fn messages_path(&self) -> &'static str {
        if self.api().counts() { "/messages/count_tokens" } else { "/messages" }
    }

    /// The request in the common tongue. It was read without a fault when the call was made.
    fn common(&self) -> Result<Request, BadRequest> {
        match &self.peek {
            Peek::Chat(_) => openai::request::read(&self.body),
            Peek::Responses(_) => openai_responses::request::read(&self.body),
            Peek::Messages(_) => anthropic::request::read(&self.body),
            Peek::Gemini(peek) if peek.method == Method::CountTokens => gemini::count::read(&self.body),
            Peek::Gemini(peek) => gemini::request::read(&self.body, peek.answer),
            Peek::Embeddings(_) => Err(not_there("embeddings")),
        }
    }

    fn crossing_call(
        &self,
        to: Dialect,
        model: &str,
        request_id: &str,
        found: &Found,
    ) -> Result<UpstreamCall, BadRequest> {
        let mut request = self.common()?;
        found.images.place(&mut request);
        let restored = found.thoughts.restore(&mut request, to);
        Ok(match to {
            Dialect::OpenAi => UpstreamCall::to("/chat/completions", openai::request::write(&request, model)?),
            Dialect::Anthropic => UpstreamCall {
                headers: headers::for_upstream(Words::Translated),
                ..UpstreamCall::to("/messages", anthropic::request::write(&request, model, &target(model, restored))?)
            },
            Dialect::Gemini => {
                let path = gemini::url::path(model, Method::Generate(self.look.answer));
                UpstreamCall::to(path, gemini::request::write(&request, model)?)
            }
            Dialect::CodeAssist => {
                let path = code_assist::request::path(code_assist::request::Method::Generate(self.look.answer));
                let body = code_assist::request::write(&request, model, &envelope(request_id))?;
                UpstreamCall::to(path, body)
            }
        })
    }

    fn crossed(
        &self,
        from: Dialect,
        content_type: Option<&str>,
        body: &Bytes,
        request_id: &str,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        let request = self.common().unwrap_or_default();
        let mut answer = match from {
            Dialect::OpenAi => openai::response::read(content_type, body)?,
            Dialect::Anthropic => anthropic::response::read(content_type, body)?,
            Dialect::Gemini => gemini::response::read(content_type, body)?,
            Dialect::CodeAssist => code_assist::response::read(content_type, body)?,
        };
        match from {
            Dialect::OpenAi => openai::names::Names::of(&request).restore(&mut answer),
            Dialect::Anthropic => anthropic::names::Names::of(&request).restore(&mut answer),
            Dialect::Gemini | Dialect::CodeAssist => gemini::names::Names::of(&request).restore(&mut answer),
        }
        let written = self.written(&answer, request_id);
        let kept = if proves(from) { Gatherer::of(&answer, self.api().dialect()) } else { Vec::new() };
        Ok(WholeAnswer { kept, ..WholeAnswer::crossed(&answer, written) })
    }

    fn written(&self, answer: &Response, request_id: &str) -> Bytes {
        let model = &self.look.model;
        match &self.peek {
            Peek::Chat(_) | Peek::Embeddings(_) => openai::response::write(answer, model, request_id),
            Peek::Responses(_) => {
                let echo = openai_responses::request::echo(&self.body);
                openai_responses::response::write(answer, model, request_id, &echo)
            }
            Peek::Messages(_) => anthropic::response::write(answer, model, request_id),
            Peek::Gemini(_) => gemini::response::write(answer, model, request_id),
        }
    }

    fn reader(&self, from: Dialect) -> Box<dyn ReadEvents> {
        let request = self.common().unwrap_or_default();
        match from {
            Dialect::OpenAi => Box::new(openai::stream::Reader::new(openai::names::Names::of(&request))),
            Dialect::Anthropic => Box::new(anthropic::stream::Reader::new(anthropic::names::Names::of(&request))),
            Dialect::Gemini => Box::new(gemini::stream::Reader::new(gemini::names::Names::of(&request))),
            Dialect::CodeAssist => Box::new(code_assist::stream::Reader::new(gemini::names::Names::of(&request))),
        }
    }

    fn writer(&self, request_id: &str) -> Box<dyn WriteEvents> {
        let model = &self.look.model;
        match &self.peek {
            Peek::Chat(peek) => Box::new(openai::stream::Writer::new(model, request_id, peek.usage_chunk)),
            Peek::Embeddings(_) => Box::new(openai::stream::Writer::new(model, request_id, super::UsageChunk::Hidden)),
            Peek::Responses(_) => {
                let echo = openai_responses::request::echo(&self.body);
                Box::new(openai_responses::stream::Writer::new(model, request_id, &echo))
            }
            Peek::Messages(_) => Box::new(anthropic::stream::Writer::new(model, request_id)),
            Peek::Gemini(_) => Box::new(gemini::stream::Writer::new(model, request_id, self.entry.framing)),
        }
    }
}

fn look(model: &str, answer: Answer, max_output_tokens: Option<u64>, choices: u64, prompt_chars: u64) -> Look {
    Look { model: model.to_owned(), answer, max_output_tokens, choices, prompt_chars }
}

/// Whether upstreams of this dialect prove the thoughts before a call.
fn proves(dialect: Dialect) -> bool {
    match dialect {
        Dialect::Anthropic | Dialect::Gemini | Dialect::CodeAssist => true,
        Dialect::OpenAi => false,
    }
}

fn target(model: &str, restored: Restored) -> Target {
    let thoughts = match restored {
        Restored::Own => Whose::Own,
        Restored::Nothing => Whose::Foreign,
    };
    Target { thoughts, ..Target::of_model(model) }
}

fn envelope(request_id: &str) -> Envelope<'_> {
    Envelope { user_prompt_id: Some(request_id), ..Envelope::default() }
}

/// What writers call a field is OpenAI's word for it; the caller reads its own.
fn in_words_of(api: Api, mut bad: BadRequest) -> BadRequest {
    const WORDS: [(&str, &str, &str); 9] = [
        ("n", "n", "generationConfig.candidateCount"),
        ("stop", "stop_sequences", "generationConfig.stopSequences"),
        ("seed", "seed", "generationConfig.seed"),
        ("top_k", "top_k", "generationConfig.topK"),
        ("top_p", "top_p", "generationConfig.topP"),
        ("temperature", "temperature", "generationConfig.temperature"),
        ("max_tokens", "max_tokens", "generationConfig.maxOutputTokens"),
        ("messages", "messages", "contents"),
        ("response_format", "output_config.format", "generationConfig.responseMimeType"),
    ];
    let Some(field) = bad.field.as_deref() else { return bad };
    let Some((word, anthropic, gemini)) = WORDS.into_iter().find(|(word, ..)| *word == field) else { return bad };
    let own = match api.dialect() {
        Dialect::OpenAi => return bad,
        Dialect::Anthropic => anthropic,
        Dialect::Gemini | Dialect::CodeAssist => gemini,
    };
    let begins =
        |message: &str, lead: &str| message.strip_prefix(lead).map(|rest| format!("{}{rest}", lead.replace(word, own)));
    let named = [format!("'{word}'"), format!("{word}:"), format!("{word} ")];
    if let Some(message) = named.iter().find_map(|lead| begins(&bad.message, lead)) {
        bad.message = message;
    }
    bad.field = Some(own.into());
    bad
}

/// The upstream's dialect has no such thing.
fn not_there(what: &str) -> BadRequest {
    BadRequest {
        field: Some("model".into()),
        code: Some("unsupported_value"),
        message: format!("The upstreams of this model do not offer {what}."),
    }
}
