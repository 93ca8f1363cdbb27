"""OpenAI's SDK, responses."""

import base64
import json

from ask import Answer, Call, Usage
from clients.chat import BROKEN, ERRORS, OpenAi

__all__ = ["BROKEN", "ERRORS", "Responses"]


class Responses(OpenAi):
    """The responses API."""

    def ask(self, model, ask):
        """A whole answer."""
        return _read(self.sdk.take().responses.create(model=model, **_request(ask)))

    def parse(self, model, ask):
        """A structured answer through the SDK's helper."""
        return self.sdk.take().responses.parse(model=model, text_format=ask.schema, **_request(ask)).output_parsed

    def stream(self, model, ask, pieces=None):
        """A streamed answer; its last event must agree with its deltas."""
        pieces = [] if pieces is None else pieces
        final, thoughts, arguments, last = None, "", {}, -1
        for event in self.sdk.take().responses.create(model=model, stream=True, **_request(ask)):
            assert final is None, f"nothing comes after the last event: {event.type}"
            assert event.sequence_number > last, "sequence numbers grow"
            last = event.sequence_number
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
            elif event.type == "response.reasoning_summary_text.delta":
                thoughts += event.delta
            elif event.type == "response.function_call_arguments.delta":
                arguments[event.output_index] = arguments.get(event.output_index, "") + event.delta
            elif event.type in ("response.completed", "response.incomplete"):
                final = _read(event.response)
        assert final is not None, "the stream ended without its last event"
        assert final.text == "".join(pieces), f"deltas and final text differ: {pieces} {final.text!r}"
        assert final.thoughts == thoughts, f"deltas and final summary differ: {thoughts!r} {final.thoughts!r}"
        assert [call.arguments for call in final.calls] == [json.loads(text) for text in arguments.values()]
        final.pieces = pieces
        return final

    def helper(self, model, ask):
        """A streamed answer through the SDK's accumulating helper."""
        with self.sdk.take().responses.stream(model=model, **_request(ask)) as stream:
            for _ in stream:
                pass
            return _read(stream.get_final_response())


def _request(ask):
    items = [{"role": role, "content": text} for role, text in ask.turns]
    content = ask.prompt
    if ask.image or ask.image_url:
        url = ask.image_url or "data:image/png;base64," + base64.b64encode(ask.image).decode()
        image = {"type": "input_image", "image_url": url, "detail": "auto"}
        content = [{"type": "input_text", "text": ask.prompt}, image]
    items.append({"role": "user", "content": content})
    for earlier in ask.rounds:
        items += earlier.answer.native
        for call, result in earlier.results:
            items.append({"type": "function_call_output", "call_id": call.id, "output": json.dumps(result)})
    request = {"input": items}
    if ask.system:
        request["instructions"] = ask.system
    if ask.tools:
        request["tools"] = [
            {"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": False}
            for t in ask.tools
        ]
    if ask.choice:
        named = {"type": "function", "name": ask.choice}
        request["tool_choice"] = {"none": "none", "any": "required"}.get(ask.choice, named)
    if ask.think:
        request["reasoning"] = {"effort": "medium", "summary": "auto"}
    if ask.max_tokens:
        request["max_output_tokens"] = ask.max_tokens
    if ask.temperature is not None:
        request["temperature"] = ask.temperature
    return {**request, **ask.extra}


def _read(response):
    calls = [
        Call(item.call_id, item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    parts = [part.text for item in response.output if item.type == "reasoning" for part in item.summary]
    finish = response.incomplete_details.reason if response.incomplete_details else response.status
    usage = response.usage
    if usage is not None:
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens, f"the total is a sum: {usage}"
        cached, reasoning = usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens
        usage = Usage(usage.input_tokens, cached, usage.output_tokens, reasoning)
    return Answer(
        response.id, response.model, response.output_text, "".join(parts), calls, finish, usage, response.output
    )
