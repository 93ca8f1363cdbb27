"""What is not expected to pass yet: a pattern over the names of checks, and why. An entry of which any check passes, or that
names no check, fails the run: delete or narrow it as the feature lands."""

PENDING = {
    "signatures anthropic->gemini": "signatures that the caller's dialect cannot carry are not kept in Redis yet",
    "signatures anthropic->codeassist": "signatures that the caller's dialect cannot carry are not kept in Redis yet",
    "signatures chat->anthropic": "signatures that the caller's dialect cannot carry are not kept in Redis yet",
    "signatures responses->anthropic": "signatures that the caller's dialect cannot carry are not kept in Redis yet",
    "signatures genai->anthropic": "signatures that the caller's dialect cannot carry are not kept in Redis yet",
}
