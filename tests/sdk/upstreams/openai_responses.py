"""Responses as OpenAI reads them."""

import json

from framework import that
from upstreams.seen import Seen, content_of, decoded


def read(body):
    """The request, or what the service would object to."""
    seen = Seen(body["model"], system=body.get("instructions") or "")
    names = {}
    items = body["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            content = item["content"]
            parts = [("text", content)] if isinstance(content, str) else [_part(part) for part in content]
            if item["role"] in ("system", "developer"):
                seen.system += "".join(part[1] for part in parts)
            else:
                seen.say(item["role"], parts)
        elif kind == "function_call":
            that(0 < len(item["call_id"]) <= 64, f"a call id of 1 to 64 characters: {item}")
            names[item["call_id"]] = item["name"]
            seen.say("assistant", [("call", item["call_id"], item["name"], json.loads(item["arguments"]))])
        elif kind == "function_call_output":
            that(item["call_id"] in names, f"a result answers a call: {item}")
            seen.say("user", [("result", item["call_id"], names[item["call_id"]], content_of(item["output"]))])
        else:
            that(kind == "reasoning", f"an item of a known type: {item}")
            text = "".join(part["text"] for part in item["summary"])
            seen.say("assistant", [("thinking", text, item.get("encrypted_content"))])
    seen.tools = {tool["name"]: tool.get("parameters") for tool in body.get("tools") or []}
    choice = body.get("tool_choice")
    seen.choice = choice["name"] if isinstance(choice, dict) else {"required": "any"}.get(choice, choice)
    form = (body.get("text") or {}).get("format")
    if form and form["type"] == "json_schema":
        that(form.get("name"), "a schema has a name")
        seen.schema = form["schema"]
    reasoning = body.get("reasoning") or {}
    seen.effort, seen.thoughts_wanted = reasoning.get("effort"), bool(reasoning.get("summary"))
    seen.max_tokens, seen.temperature = body.get("max_output_tokens"), body.get("temperature")
    return seen


def _part(part):
    if part["type"] in ("input_text", "output_text"):
        return ("text", part["text"])
    that(part["type"] == "input_image", f"a part of a known type: {part}")
    head, data = part["image_url"].split(",", 1)
    that(head.startswith("data:") and head.endswith(";base64"), f"a data URL: {head}")
    return ("image", head[5:-7], decoded(data))
