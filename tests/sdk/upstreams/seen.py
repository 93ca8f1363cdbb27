"""A request as an upstream saw it, in the words of no dialect."""

import base64
import json
from dataclasses import dataclass, field


@dataclass
class Seen:
    """A request. Turns are (role, [part]) with neighbours of one role merged; a part is ("text", text), ("image", mime, bytes),
    ("call", id, name, arguments), ("result", id, name, content) or ("thinking", text, signature)."""

    model: str
    system: str = ""
    turns: list = field(default_factory=list)
    tools: dict = field(default_factory=dict)
    choice: str | None = None
    schema: dict | None = None
    stop: list = field(default_factory=list)
    effort: str | None = None
    thoughts_wanted: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    # Proofs of thought on calls, in order, where the dialect carries them there.
    signatures: list = field(default_factory=list)

    def say(self, role, parts):
        """Adds a turn, or to the last one of the same role."""
        if self.turns and self.turns[-1][0] == role:
            self.turns[-1][1].extend(parts)
        else:
            self.turns.append((role, list(parts)))

    def parts(self, kind):
        """All parts of a kind, in order."""
        return [part for _, parts in self.turns for part in parts if part[0] == kind]

    def texts(self):
        """The turns' texts: (role, text), turns without text left out."""
        joined = [(role, "".join(part[1] for part in parts if part[0] == "text")) for role, parts in self.turns]
        return [(role, text) for role, text in joined if text]

    def answered_calls(self):
        """Calls with their results: (name, arguments, content); by id, or in order of the name where there are no ids."""
        results = self.parts("result")
        pairs = []
        for _, id, name, arguments in self.parts("call"):
            fits = [r for r in results if (r[1] == id if id and r[1] else r[2] == name)]
            content = fits[0][3] if fits else None
            if fits:
                results.remove(fits[0])
            pairs.append((name, arguments, content))
        assert not results, f"results without a call: {results}"
        return pairs


def decoded(text, strict=True):
    """Bytes of base64; with the standard alphabet only, unless the dialect takes both."""
    if not strict:
        text = text.replace("-", "+").replace("_", "/")
        text += "=" * (-len(text) % 4)
    return base64.b64decode(text, validate=True)


def content_of(text):
    """A tool result's text as the JSON it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def effort_of(budget):
    """The level a budget stands for."""
    for limit, level in ((0, "none"), (767, "minimal"), (4096, "low"), (16384, "medium"), (28672, "high")):
        if budget <= limit:
            return level
    return "xhigh"
