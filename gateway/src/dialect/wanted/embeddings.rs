//! Embeddings between the two dialects that have them. Pure.

use bytes::Bytes;

use super::{Peek, UpstreamCall, Wanted, not_there};
use crate::canonical::embeddings::Vectors;
use crate::dialect::gemini::url::Method;
use crate::dialect::translate::WholeAnswer;
use crate::dialect::{Dialect, gemini, openai};
use crate::error::{BadRequest, UpstreamError};

impl Wanted {
    pub(super) fn embeds(&self) -> bool {
        match &self.peek {
            Peek::Embeddings(_) => true,
            Peek::Gemini(peek) => matches!(peek.method, Method::EmbedContent | Method::BatchEmbedContents),
            Peek::Chat(_) | Peek::Responses(_) | Peek::Messages(_) => false,
        }
    }

    pub(super) fn embedding_call(&self, to: Dialect, model: &str) -> Result<UpstreamCall, BadRequest> {
        let request = match &self.peek {
            Peek::Gemini(peek) => gemini::embed::read(&self.body, peek.method)?,
            _ => openai::embeddings::request::read(&self.body)?,
        };
        match to {
            Dialect::OpenAi => {
                Ok(UpstreamCall::to("/embeddings", openai::embeddings::request::write(&request, model)?))
            }
            Dialect::Gemini => {
                let path = gemini::url::path(model, Method::BatchEmbedContents);
                Ok(UpstreamCall::to(path, gemini::embed::write(&request, model)?))
            }
            Dialect::Anthropic | Dialect::CodeAssist => Err(not_there("embeddings")),
        }
    }

    pub(super) fn embedded_by(
        &self,
        from: Dialect,
        content_type: Option<&str>,
        body: &Bytes,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        let vectors: Vectors = match from {
            Dialect::OpenAi => openai::embeddings::response::read(content_type, body)?,
            Dialect::Anthropic | Dialect::Gemini | Dialect::CodeAssist => gemini::embed::read_answer(body)?,
        };
        let written = match &self.peek {
            // The same method at the same dialect: the bytes pass once they are known to be an answer.
            Peek::Gemini(_) if from == Dialect::Gemini => body.clone(),
            Peek::Gemini(peek) => gemini::embed::write_answer(&vectors, peek.method),
            Peek::Embeddings(peek) => openai::embeddings::response::write(&vectors, &self.look.model, peek.encoding),
            Peek::Chat(_) | Peek::Responses(_) | Peek::Messages(_) => body.clone(),
        };
        Ok(WholeAnswer { body: written, usage: vectors.usage, output_chars: 0, ..WholeAnswer::default() })
    }
}
