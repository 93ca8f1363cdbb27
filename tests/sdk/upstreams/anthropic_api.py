"""Messages as Anthropic reads them."""

import re

from framework import that
from upstreams.seen import Seen, content_of, decoded, effort_of


def read(body):
    """The request, or what the service would object to."""
    seen = Seen(body["model"])
    system = body.get("system") or ""
    seen.system = system if isinstance(system, str) else "".join(block["text"] for block in system)
    seen.max_tokens = body.get("max_tokens")
    that(isinstance(seen.max_tokens, int) and seen.max_tokens > 0, "Anthropic wants `max_tokens`")
    that(body["messages"][0]["role"] == "user", "the user speaks first")
    _messages(body["messages"], seen)
    for tool in body.get("tools") or []:
        that(tool["input_schema"].get("type") == "object", f"the schema of a tool is an object's: {tool}")
        seen.tools[tool["name"]] = tool["input_schema"]
    choice = body.get("tool_choice")
    if choice:
        that(choice["type"] in ("auto", "any", "none", "tool"), f"a known tool_choice: {choice}")
        seen.choice = choice.get("name") or choice["type"]
    config = body.get("output_config") or {}
    if config.get("format"):
        that(config["format"]["type"] == "json_schema", f"a known format: {config}")
        seen.schema = config["format"]["schema"]
        that(seen.schema.get("additionalProperties") is False, f"the schema is closed: {seen.schema}")
    seen.stop = body.get("stop_sequences") or []
    seen.temperature = body.get("temperature")
    _thinking(body, config, seen)
    return seen


def _messages(messages, seen):
    waiting, names, last_role = [], {}, None
    for message in messages:
        role, content = message["role"], message["content"]
        that(role in ("user", "assistant", "system"), f"a known role: {role}")
        that(role != last_role, f"roles alternate: two of {role}")
        last_role = role
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        that(blocks, "a message has content")
        if role == "system":
            seen.system += "".join(block["text"] for block in blocks)
            continue
        if waiting:
            answered = [block["tool_use_id"] for block in blocks[: len(waiting)] if block["type"] == "tool_result"]
            that(sorted(answered) == sorted(waiting), f"all results stand first in one user message: {blocks}")
        parts = [_part(block, names) for block in blocks]
        waiting = [part[1] for part in parts if part[0] == "call"]
        that(len(set(waiting)) == len(waiting), f"ids are unique: {waiting}")
        seen.say(role, parts)
    that(not waiting, f"every call has its result; missing {waiting}")


def _part(block, names):
    kind = block["type"]
    if kind == "text":
        that(block["text"], "no text is empty")
        return ("text", block["text"])
    if kind == "image":
        source = block["source"]
        that(source["type"] == "base64", f"an inline image: {source['type']}")
        return ("image", source["media_type"], decoded(source["data"]))
    if kind == "tool_use":
        that(re.fullmatch("[a-zA-Z0-9_-]+", block["id"]), f"an id as Anthropic wants it: {block['id']}")
        that(isinstance(block["input"], dict), f"the input is an object: {block}")
        names[block["id"]] = block["name"]
        return ("call", block["id"], block["name"], block["input"])
    if kind == "tool_result":
        that(block["tool_use_id"] in names, f"a result answers a call: {block}")
        content = block["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        return ("result", block["tool_use_id"], names[block["tool_use_id"]], content_of(text))
    that(kind == "thinking" and block["signature"], f"a signed thought, or a known block: {block}")
    return ("thinking", block["thinking"], block["signature"])


def _thinking(body, config, seen):
    thinking = body.get("thinking") or {"type": "disabled"}
    seen.effort = config.get("effort")
    if thinking["type"] == "enabled":
        budget = thinking["budget_tokens"]
        that(1024 <= budget < seen.max_tokens, f"the budget fits under max_tokens: {budget} of {seen.max_tokens}")
        seen.effort = effort_of(budget)
    seen.thoughts_wanted = thinking["type"] != "disabled"
    if seen.thoughts_wanted:
        that("temperature" not in body, "thinking goes with no temperature")
        that(seen.choice in (None, "auto", "none"), "thinking goes with no forced call")
