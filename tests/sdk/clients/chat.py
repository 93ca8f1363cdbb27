"""OpenAI's SDK, chat completions."""

import base64
import json

import openai

from ask import Answer, Call, Usage
from clients.base import TIMEOUT_SECONDS, Turn

# The SDK's exception for each status a caller may see.
ERRORS = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    402: openai.APIStatusError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    408: openai.APIStatusError,
    409: openai.ConflictError,
    413: openai.APIStatusError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
    504: openai.InternalServerError,
}
# What a stream raises that breaks after content.
BROKEN = openai.APIError


class OpenAi:
    """What both of OpenAI's APIs share."""

    def __init__(self, bases, key):
        self.sdk = Turn([
            openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0, timeout=TIMEOUT_SECONDS) for base in bases
        ])

    def embed(self, model, texts):
        """The vectors; the SDK asks for base64 and decodes it."""
        answer = self.sdk.take().embeddings.create(model=model, input=texts)
        return [entry.embedding for entry in answer.data]

    def models(self):
        """The models listed."""
        return [model.id for model in self.sdk.take().models.list()]

    def describe(self, error):
        """Status, type and code; the status of an error inside a stream is `None`."""
        return getattr(error, "status_code", None), error.type, error.code

    def header(self, error, name):
        """A header of an error's answer."""
        return error.response.headers.get(name)


class Chat(OpenAi):
    """Chat completions."""

    def ask(self, model, ask):
        """A whole answer."""
        return _read(self.sdk.take().chat.completions.create(model=model, **_request(ask)))

    def parse(self, model, ask):
        """A structured answer through the SDK's helper."""
        answer = self.sdk.take().chat.completions.parse(model=model, response_format=ask.schema, **_request(ask))
        return answer.choices[0].message.parsed

    def stream(self, model, ask, pieces=None):
        """A streamed answer, put together from its chunks."""
        pieces = [] if pieces is None else pieces
        options = {"include_usage": True}
        stream = self.sdk.take().chat.completions.create(
            model=model, stream=True, stream_options=options, **_request(ask)
        )
        answer = Answer("", "", "", "", [], None, None, None, pieces)
        calls, usages = {}, 0
        for chunk in stream:
            answer.id, answer.model = chunk.id, chunk.model
            if chunk.usage:
                usages += 1
                answer.usage = _usage(chunk.usage)
                assert usages == 1 and answer.finish, "the usage comes once, after the finish reason"
            for choice in chunk.choices:
                assert answer.finish is None, "nothing comes after the finish reason"
                if choice.delta.content:
                    pieces.append(choice.delta.content)
                answer.thoughts += getattr(choice.delta, "reasoning_content", None) or ""
                for delta in choice.delta.tool_calls or []:
                    call = calls.setdefault(delta.index, [None, "", ""])
                    assert bool(delta.id) == (call[0] is None), "id and name come with the first fragment only"
                    call[0] = call[0] or delta.id
                    call[1] += delta.function.name or ""
                    call[2] += delta.function.arguments or ""
                answer.finish = choice.finish_reason
        assert list(calls) == list(range(len(calls))), "calls are counted from 0 without gaps"
        answer.calls = [Call(id, name, json.loads(arguments)) for id, name, arguments in calls.values()]
        answer.text = "".join(pieces)
        return answer

    def helper(self, model, ask):
        """A streamed answer through the SDK's accumulating helper."""
        with self.sdk.take().chat.completions.stream(model=model, **_request(ask)) as stream:
            for _ in stream:
                pass
            return _read(stream.get_final_completion())


def _request(ask):
    messages = [{"role": "system", "content": ask.system}] if ask.system else []
    messages += [{"role": role, "content": text} for role, text in ask.turns]
    content = ask.prompt
    if ask.image or ask.image_url:
        url = ask.image_url or "data:image/png;base64," + base64.b64encode(ask.image).decode()
        content = [{"type": "text", "text": ask.prompt}, {"type": "image_url", "image_url": {"url": url}}]
    messages.append({"role": "user", "content": content})
    for earlier in ask.rounds:
        messages.append(earlier.answer.native)
        for call, result in earlier.results:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    request = {"messages": messages}
    if ask.stop:
        request["stop"] = ask.stop
    if ask.tools:
        request["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in ask.tools
        ]
    if ask.choice:
        named = {"type": "function", "function": {"name": ask.choice}}
        request["tool_choice"] = {"none": "none", "any": "required"}.get(ask.choice, named)
    if ask.think:
        request["reasoning_effort"] = "medium"
    if ask.max_tokens:
        request["max_completion_tokens"] = ask.max_tokens
    if ask.temperature is not None:
        request["temperature"] = ask.temperature
    return {**request, **ask.extra}


def _read(completion):
    choice = completion.choices[0]
    calls = [
        Call(call.id, call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []
    ]
    thoughts = getattr(choice.message, "reasoning_content", None) or ""
    return Answer(
        completion.id,
        completion.model,
        choice.message.content or "",
        thoughts,
        calls,
        choice.finish_reason,
        _usage(completion.usage),
        choice.message,
    )


def _usage(usage):
    if usage is None:
        return None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, f"the total is a sum: {usage}"
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    reasoning = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else 0
    return Usage(usage.prompt_tokens, cached or 0, usage.completion_tokens, reasoning or 0)
