"""What each upstream was sent, read as strictly as the real service would, into one form."""

import json

from framework import Wrong, that
from upstreams import anthropic_api, gemini_api, openai_chat, openai_responses


def read(call):
    """The request of a call of the fake's log."""
    path = call["path"].split("?")[0]
    body = json.loads(call["body"])
    if path.endswith("/chat/completions"):
        return openai_chat.read(body)
    if path.endswith("/responses"):
        return openai_responses.read(body)
    if path.endswith("/messages"):
        that("anthropic-version" in call["headers"], "an Anthropic upstream wants `anthropic-version`")
        return anthropic_api.read(body)
    if "/v1internal:" in path:
        that(isinstance(body.get("request"), dict) and "contents" not in body, "Code Assist wants its envelope")
        that(body.get("model") and not body["model"].startswith("models/"), "Code Assist wants a bare model name")
        return gemini_api.read(body["request"], body["model"])
    if "/models/" in path:
        return gemini_api.read(body, path.rsplit("/models/", 1)[1].split(":")[0])
    raise Wrong(f"a call to {path}")
