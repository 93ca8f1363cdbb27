"""Anthropic's SDK, messages."""

import base64
import json

import anthropic

from ask import Answer, Call, Usage
from clients.base import TIMEOUT_SECONDS, Turn

ERRORS = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    402: anthropic.PaymentRequiredError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    408: anthropic.RequestTimeoutError,
    409: anthropic.ConflictError,
    413: anthropic.ContentTooLargeError,
    422: anthropic.UnprocessableEntityError,
    429: anthropic.RateLimitError,
    500: anthropic.InternalServerError,
    502: anthropic.InternalServerError,
    503: anthropic.ServiceUnavailableError,
    504: anthropic.GatewayTimeoutError,
}
BROKEN = anthropic.APIStatusError
# Thinking counts inside `max_tokens`, so a budget of medium effort needs more than the usual.
MAX_TOKENS, THINKING_MAX_TOKENS, THINKING_BUDGET = 1024, 16000, 8192


class Anthropic:
    """Messages."""

    def __init__(self, bases, key):
        self.sdk = Turn([
            anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=TIMEOUT_SECONDS) for base in bases
        ])

    def ask(self, model, ask):
        """A whole answer."""
        return _read(self.sdk.take().messages.create(model=model, **_request(ask)))

    def parse(self, model, ask):
        """A structured answer through the SDK's helper."""
        answer = self.sdk.take().messages.parse(model=model, output_format=ask.schema, **_request(ask))
        return answer.parsed_output

    def stream(self, model, ask, pieces=None):
        """A streamed answer, put together from its events."""
        pieces = [] if pieces is None else pieces
        answer = Answer("", "", "", "", [], None, None, None, pieces)
        blocks, open_block, over, usage = [], None, False, None
        for event in self.sdk.take().messages.create(model=model, stream=True, **_request(ask)):
            assert not over, f"nothing comes after message_stop: {event.type}"
            if event.type == "message_start":
                answer.id, answer.model, usage = event.message.id, event.message.model, event.message.usage
            elif event.type == "content_block_start":
                assert open_block is None and event.index == len(blocks), "one block at a time, counted from 0"
                open_block = event.index
                blocks.append([event.content_block, "", ""])
            elif event.type == "content_block_delta":
                assert event.index == open_block, "a delta belongs to the open block"
                _delta(blocks[open_block], event.delta, pieces)
            elif event.type == "content_block_stop":
                assert event.index == open_block, "the open block is closed"
                open_block = None
            elif event.type == "message_delta":
                assert open_block is None and answer.finish is None, "one message_delta, after the blocks"
                answer.finish = event.delta.stop_reason
                usage = event.usage
            over = event.type == "message_stop"
        assert over, "the stream ended without message_stop"
        answer.text = "".join(pieces)
        answer.thoughts = "".join(text for block, text, _ in blocks if block.type == "thinking")
        answer.calls = [
            Call(block.id, block.name, json.loads(text or "{}")) for block, text, _ in blocks if block.type == "tool_use"
        ]
        answer.usage = _usage(usage)
        return answer

    def helper(self, model, ask):
        """A streamed answer through the SDK's accumulating helper."""
        with self.sdk.take().messages.stream(model=model, **_request(ask)) as stream:
            for _ in stream:
                pass
            return _read(stream.get_final_message())

    def count(self, model, ask):
        """The tokens of a request."""
        request = _request(ask)
        del request["max_tokens"]
        return self.sdk.take().messages.count_tokens(model=model, **request).input_tokens

    def models(self):
        """The models listed."""
        return [model.id for model in self.sdk.take().models.list()]

    def describe(self, error):
        """Status, type and (there is none) code."""
        return error.status_code, error.type, None

    def header(self, error, name):
        """A header of an error's answer."""
        return error.response.headers.get(name)


def _delta(block, delta, pieces):
    kinds = {
        "text_delta": "text",
        "thinking_delta": "thinking",
        "signature_delta": "thinking",
        "input_json_delta": "tool_use",
    }
    assert block[0].type == kinds[delta.type], f"a {delta.type} in a block of type {block[0].type}"
    if delta.type == "text_delta":
        pieces.append(delta.text)
    elif delta.type == "thinking_delta":
        block[1] += delta.thinking
    elif delta.type == "signature_delta":
        block[2] += delta.signature
    else:
        block[1] += delta.partial_json


def _request(ask):
    messages = [{"role": role, "content": text} for role, text in ask.turns]
    content = ask.prompt
    if ask.image:
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(ask.image).decode()}
        content = [{"type": "image", "source": source}, {"type": "text", "text": ask.prompt}]
    if ask.image_url:
        source = {"type": "url", "url": ask.image_url}
        content = [{"type": "image", "source": source}, {"type": "text", "text": ask.prompt}]
    messages.append({"role": "user", "content": content})
    for earlier in ask.rounds:
        messages.append({"role": "assistant", "content": earlier.answer.native})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": json.dumps(result)}
            for call, result in earlier.results
        ]
        messages.append({"role": "user", "content": results})
    request = {"messages": messages, "max_tokens": ask.max_tokens or MAX_TOKENS}
    if ask.system:
        request["system"] = ask.system
    if ask.stop:
        request["stop_sequences"] = ask.stop
    if ask.tools:
        request["tools"] = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in ask.tools]
    if ask.choice:
        named = {"type": "tool", "name": ask.choice}
        request["tool_choice"] = {"none": {"type": "none"}, "any": {"type": "any"}}.get(ask.choice, named)
    if ask.think:
        request["max_tokens"] = THINKING_MAX_TOKENS
        request["thinking"] = {"type": "enabled", "budget_tokens": THINKING_BUDGET}
    return {**request, **ask.extra}


def _read(message):
    blocks = message.content
    calls = [Call(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"]
    text = "".join(block.text for block in blocks if block.type == "text")
    thoughts = "".join(block.thinking for block in blocks if block.type == "thinking")
    if message.stop_reason == "stop_sequence":
        assert message.stop_sequence, "the stop text is named"
    return Answer(
        message.id, message.model, text, thoughts, calls, message.stop_reason, _usage(message.usage), blocks
    )


def _usage(usage):
    if usage is None:
        return None
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = getattr(usage, "output_tokens_details", None)
    reasoning = details.thinking_tokens if details else 0
    return Usage((usage.input_tokens or 0) + cached + written, cached, usage.output_tokens, reasoning or 0)
