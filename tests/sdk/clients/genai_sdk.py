"""Google's SDK, generate content."""

from google import genai
from google.genai import errors, types

from ask import Answer, Call, Usage
from clients.base import TIMEOUT_SECONDS, Turn

ERRORS = {status: errors.ClientError if status < 500 else errors.ServerError for status in range(400, 600)}
BROKEN = errors.ServerError
THINKING_BUDGET = 8192


class Genai:
    """Generate content; `version` is the path's, the SDK's own where absent."""

    def __init__(self, bases, key, version=None):
        self.sdk = Turn([genai.Client(api_key=key, vertexai=False, http_options=_options(base, version)) for base in bases])

    def ask(self, model, ask):
        """A whole answer."""
        contents, config = _request(ask)
        return _read([self.sdk.take().models.generate_content(model=model, contents=contents, config=config)])

    def parse(self, model, ask):
        """A structured answer through the SDK's own `parsed`."""
        contents, config = _request(ask)
        config.response_mime_type, config.response_schema = "application/json", ask.schema
        return self.sdk.take().models.generate_content(model=model, contents=contents, config=config).parsed

    def stream(self, model, ask, pieces=None):
        """A streamed answer, put together from its chunks."""
        pieces = [] if pieces is None else pieces
        contents, config = _request(ask)
        chunks = []
        for chunk in self.sdk.take().models.generate_content_stream(model=model, contents=contents, config=config):
            assert not chunks or not _finish(chunks[-1]), "nothing comes after the finish reason"
            chunks.append(chunk)
            text = "".join(part.text for part in _parts(chunk) if part.text and not part.thought)
            if text:
                pieces.append(text)
        answer = _read(chunks)
        assert answer.finish, "the stream ended without a finish reason"
        answer.pieces = pieces
        return answer

    def helper(self, model, ask):
        """A streamed answer through the SDK's chat session."""
        contents, config = _request(ask)
        chat = self.sdk.take().chats.create(model=model, config=config, history=contents[:-1])
        return _read(list(chat.send_message_stream(contents[-1].parts)))

    def embed(self, model, texts):
        """The vectors."""
        answer = self.sdk.take().models.embed_content(model=model, contents=texts)
        return [embedding.values for embedding in answer.embeddings]

    def count(self, model, ask):
        """The tokens of a request."""
        contents, _ = _request(ask)
        return self.sdk.take().models.count_tokens(model=model, contents=contents).total_tokens

    def models(self):
        """The models listed."""
        return [model.name.removeprefix("models/") for model in self.sdk.take().models.list()]

    def describe(self, error):
        """Status, canonical status and (there is none) code."""
        return error.code, error.status, None

    def header(self, error, name):
        """A header of an error's answer."""
        return error.response.headers.get(name)


def _options(base, version):
    return types.HttpOptions(
        base_url=base,
        api_version=version,
        timeout=int(TIMEOUT_SECONDS * 1000),
        retry_options=types.HttpRetryOptions(attempts=1),
    )


def _request(ask):
    roles = {"user": "user", "assistant": "model"}
    contents = [types.Content(role=roles[role], parts=[types.Part(text=text)]) for role, text in ask.turns]
    parts = [types.Part(text=ask.prompt)]
    if ask.image:
        parts.append(types.Part.from_bytes(data=ask.image, mime_type="image/png"))
    contents.append(types.Content(role="user", parts=parts))
    for earlier in ask.rounds:
        contents.append(earlier.answer.native)
        results = [
            types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=result))
            for call, result in earlier.results
        ]
        contents.append(types.Content(role="user", parts=results))
    config = types.GenerateContentConfig(**ask.extra)
    if ask.system:
        config.system_instruction = ask.system
    if ask.stop:
        config.stop_sequences = ask.stop
    if ask.tools:
        declarations = [
            types.FunctionDeclaration(name=t.name, description=t.description, parameters_json_schema=t.schema)
            for t in ask.tools
        ]
        config.tools = [types.Tool(function_declarations=declarations)]
    if ask.choice:
        modes = {"none": ("NONE", None), "any": ("ANY", None)}
        mode, names = modes.get(ask.choice, ("ANY", [ask.choice]))
        calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=names)
        config.tool_config = types.ToolConfig(function_calling_config=calling)
    if ask.think:
        config.thinking_config = types.ThinkingConfig(include_thoughts=True, thinking_budget=THINKING_BUDGET)
    if ask.max_tokens:
        config.max_output_tokens = ask.max_tokens
    if ask.temperature is not None:
        config.temperature = ask.temperature
    return contents, config


def _parts(chunk):
    candidate = chunk.candidates[0] if chunk.candidates else None
    return (candidate.content.parts if candidate and candidate.content else None) or []


def _finish(chunk):
    return chunk.candidates[0].finish_reason if chunk.candidates else None


def _read(chunks):
    parts = [part for chunk in chunks for part in _parts(chunk)]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    thoughts = "".join(part.text for part in parts if part.text and part.thought)
    calls = [
        Call(part.function_call.id, part.function_call.name, part.function_call.args or {})
        for part in parts
        if part.function_call
    ]
    finish = _finish(chunks[-1])
    native = chunks[0].candidates[0].content if len(chunks) == 1 else types.Content(role="model", parts=parts)
    return Answer(
        chunks[0].response_id,
        chunks[0].model_version,
        text,
        thoughts,
        calls,
        finish.value if finish else None,
        _usage(chunks[-1].usage_metadata),
        native,
    )


def _usage(usage):
    if usage is None:
        return None
    output, thoughts = usage.candidates_token_count or 0, usage.thoughts_token_count or 0
    total = (usage.prompt_token_count or 0) + output + thoughts
    assert usage.total_token_count == total, f"the total is a sum: {usage}"
    return Usage(usage.prompt_token_count or 0, usage.cached_content_token_count or 0, output + thoughts, thoughts)
