"""Generate-content requests as Gemini reads them, in either case of its field names."""

import re

from framework import that
from upstreams.seen import Seen, decoded, effort_of

# What the service takes in place of a signature that another service cannot have.
SENTINEL = "skip_thought_signature_validator"


def read(body, model):
    """The request, or what the service would object to."""
    seen = Seen(model)
    system = _get(body, "systemInstruction")
    if system is not None:
        that(isinstance(system, dict), "the system instruction is an object")
        seen.system = "".join(part["text"] for part in system["parts"])
    for content in body["contents"]:
        role = content.get("role", "user")
        that(role in ("user", "model"), f"a known role: {role}")
        that(content.get("parts"), f"a turn has parts: {content}")
        parts = [_part(part, seen) for part in content["parts"]]
        that(role == "user" or not any(part[0] == "result" for part in parts), "results are said by the user")
        seen.say("assistant" if role == "model" else "user", parts)
    that(seen.turns and seen.turns[0][0] == "user", "the user speaks first")
    _order(seen)
    for tool in body.get("tools") or []:
        for function in _get(tool, "functionDeclarations") or []:
            that(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", function["name"]), f"a usable name: {function}")
            seen.tools[function["name"]] = _get(function, "parametersJsonSchema") or function.get("parameters")
    calling = _get(_get(body, "toolConfig") or {}, "functionCallingConfig") or {}
    names = _get(calling, "allowedFunctionNames")
    seen.choice = names[0] if names else calling.get("mode", "").lower() or None
    _generation(_get(body, "generationConfig") or {}, seen)
    return seen


def _generation(config, seen):
    schema = _get(config, "responseJsonSchema") or _get(config, "responseSchema")
    if schema:
        that(_get(config, "responseMimeType") == "application/json", "a schema goes with JSON")
        seen.schema = schema
    seen.stop = _get(config, "stopSequences") or []
    seen.max_tokens, seen.temperature = _get(config, "maxOutputTokens"), config.get("temperature")
    thinking = _get(config, "thinkingConfig") or {}
    level, budget = _get(thinking, "thinkingLevel"), _get(thinking, "thinkingBudget")
    that(level is None or budget is None, f"a level or a budget, not both: {thinking}")
    seen.effort = level.lower() if level else None if budget is None else effort_of(budget)
    seen.thoughts_wanted = bool(_get(thinking, "includeThoughts"))


def _part(part, seen):
    call, result, inline = _get(part, "functionCall"), _get(part, "functionResponse"), _get(part, "inlineData")
    signature = _get(part, "thoughtSignature")
    if call:
        that(isinstance(call.get("args", {}), dict), f"arguments are an object: {call}")
        seen.signatures.append(signature)
        return ("call", call.get("id"), call["name"], call.get("args", {}))
    if result:
        that(isinstance(result["response"], dict) and result["name"], f"a result is a named object: {result}")
        content = result["response"]
        # What is no object is wrapped.
        return ("result", result.get("id"), result["name"], content["result"] if list(content) == ["result"] else content)
    if inline:
        return ("image", _get(inline, "mimeType"), decoded(inline["data"], strict=False))
    if part.get("thought"):
        return ("thinking", part["text"], signature)
    return ("text", part["text"])


def _order(seen):
    """Each turn of calls is answered by the next turn, call for call in the same order where there are no ids."""
    for place, (role, parts) in enumerate(seen.turns):
        calls = [part for part in parts if part[0] == "call"]
        if not calls:
            continue
        that(place + 1 < len(seen.turns), "every call has its result")
        results = [part for part in seen.turns[place + 1][1] if part[0] == "result"]
        that(sorted(c[2] for c in calls) == sorted(r[2] for r in results), f"a result for every call: {calls} {results}")


def _get(fields, name):
    snake = re.sub("([A-Z])", lambda upper: "_" + upper.group(1).lower(), name)
    return fields.get(name, fields.get(snake))
