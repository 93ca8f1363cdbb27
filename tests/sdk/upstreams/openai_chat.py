"""Chat completions as OpenAI reads them."""

import json

from framework import that
from upstreams.seen import Seen, content_of, decoded


def read(body):
    """The request, or what the service would object to."""
    seen = Seen(body["model"])
    names, waiting = {}, []
    for message in body["messages"]:
        role = message["role"]
        if role == "tool":
            that(message["tool_call_id"] in waiting, f"a result answers an open call: {message} of {waiting}")
            waiting.remove(message["tool_call_id"])
            content = "".join(part[1] for part in _parts(message["content"]))
            seen.say("user", [("result", message["tool_call_id"], names[message["tool_call_id"]], content_of(content))])
            continue
        that(not waiting, f"all results come right after their calls; missing {waiting}")
        parts = _parts(message.get("content"))
        if role in ("system", "developer"):
            seen.system += "".join(part[1] for part in parts)
            continue
        calls = message.get("tool_calls") or []
        that(parts or calls, f"a message says something: {message}")
        for call in calls:
            that(call["type"] == "function" and 0 < len(call["id"]) <= 40, f"an id of 1 to 40 characters: {call}")
            names[call["id"]] = call["function"]["name"]
            waiting.append(call["id"])
            arguments = json.loads(call["function"]["arguments"])
            parts.append(("call", call["id"], call["function"]["name"], arguments))
        that(len(set(waiting)) == len(waiting), f"ids are unique: {waiting}")
        seen.say(role, parts)
    that(not waiting, f"every call has its result; missing {waiting}")
    _rest(body, seen)
    return seen


def _rest(body, seen):
    seen.tools = {tool["function"]["name"]: tool["function"].get("parameters") for tool in body.get("tools") or []}
    choice = body.get("tool_choice")
    seen.choice = choice["function"]["name"] if isinstance(choice, dict) else {"required": "any"}.get(choice, choice)
    form = body.get("response_format")
    if form and form["type"] == "json_schema":
        that(form["json_schema"].get("name"), "a schema has a name")
        seen.schema = form["json_schema"]["schema"]
    stop = body.get("stop") or []
    seen.stop = [stop] if isinstance(stop, str) else stop
    seen.effort = body.get("reasoning_effort")
    seen.max_tokens = body.get("max_completion_tokens", body.get("max_tokens"))
    seen.temperature = body.get("temperature")
    if body.get("stream"):
        that(body["stream_options"]["include_usage"], "a streamed answer is asked for its usage")


def _parts(content):
    if content is None:
        return []
    if isinstance(content, str):
        return [("text", content)] if content else []
    return [_part(part) for part in content]


def _part(part):
    if part["type"] == "text":
        return ("text", part["text"])
    that(part["type"] == "image_url", f"a part of a known type: {part}")
    head, data = part["image_url"]["url"].split(",", 1)
    that(head.startswith("data:") and head.endswith(";base64"), f"a data URL: {head}")
    return ("image", head[5:-7], decoded(data))
