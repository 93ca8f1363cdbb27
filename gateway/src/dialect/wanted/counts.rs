//! Counts of tokens: asked of the upstream where it counts. Pure.

use bytes::Bytes;

use super::{Found, Peek, UpstreamCall, Wanted, not_there};
use crate::dialect::anthropic::count::Count;
use crate::dialect::anthropic::headers::{self, Words};
use crate::dialect::anthropic::request::Target;
use crate::dialect::gemini::url::Method;
use crate::dialect::translate::WholeAnswer;
use crate::dialect::{Dialect, anthropic, code_assist, gemini};
use crate::error::{BadRequest, UpstreamError};

impl Wanted {
    pub(super) fn counting_call(&self, to: Dialect, model: &str, found: &Found) -> Result<UpstreamCall, BadRequest> {
        let mut request = self.common()?;
        found.images.place(&mut request);
        match to {
            Dialect::Anthropic => Ok(UpstreamCall {
                headers: headers::for_upstream(Words::Translated),
                ..UpstreamCall::to(
                    "/messages/count_tokens",
                    anthropic::request::write_count(&request, model, &Target::of_model(model))?,
                )
            }),
            Dialect::Gemini => {
                let path = gemini::url::path(model, Method::CountTokens);
                Ok(UpstreamCall::to(path, gemini::count::write(&request, model)?))
            }
            Dialect::CodeAssist => {
                let path = code_assist::request::path(code_assist::request::Method::CountTokens);
                Ok(UpstreamCall::to(path, code_assist::request::write_count(&request, model)?))
            }
            Dialect::OpenAi => Err(not_there("a count of tokens")),
        }
    }

    pub(super) fn counted_by(&self, from: Dialect, body: &Bytes) -> Result<WholeAnswer, Box<UpstreamError>> {
        let count = match from {
            Dialect::Anthropic => anthropic::count::read(body)?,
            Dialect::OpenAi | Dialect::Gemini | Dialect::CodeAssist => {
                Count::Counted(gemini::count::read_answer(body)?)
            }
        };
        Ok(WholeAnswer { body: self.counted(count), ..WholeAnswer::default() })
    }

    pub(super) fn counted(&self, count: Count) -> Bytes {
        match (&self.peek, count) {
            (Peek::Gemini(_), Count::Counted(tokens) | Count::Estimated(tokens)) => gemini::count::write_answer(tokens),
            _ => anthropic::count::write(count),
        }
    }
}
