"""The fake upstream, scripted and read over its control API."""

import json
import urllib.request

# What the upstreams call the models that clients call `m-…`.
UPSTREAM_MODEL = {
    "openai": "gpt-5.6-luna",
    "anthropic": "claude-sonnet-4.5",
    "gemini": "gemini-3.1-flash-lite",
    "codeassist": "gemini-2.5-pro",
}
# Proxies of the environment are not meant for loopback.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Fake:
    """One fake upstream."""

    def __init__(self, url):
        self.url = url

    def script(self, *rules):
        """Replaces the rules."""
        self._call("POST", "/rules", list(rules))

    def reset(self):
        """Heals it and forgets the calls."""
        self._call("DELETE", "/rules")
        self._call("DELETE", "/calls")

    def calls(self):
        """The model calls seen, oldest first; token exchanges and the like left out."""
        return [call for call in json.loads(self._call("GET", "/calls")) if call["model"] or "countTokens" in call["path"]]

    def last(self):
        """The last model call."""
        calls = self.calls()
        if not calls:
            raise AssertionError("no upstream was called")
        return calls[-1]

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/__fake{path}", data=data, method=method)
        request.add_header("content-type", "application/json")
        with _OPENER.open(request, timeout=10) as answer:
            return answer.read().decode()


def vector_of(text):
    """The vector the fake answers for a text: eight numbers."""
    vector = [0.0] * 8
    for place, byte in enumerate(text.encode()):
        vector[place % 8] += byte / 256.0
    return vector
