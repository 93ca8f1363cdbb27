"""What is expected, in tables: by client, by upstream, by status."""

# Why an answer ended, in the words of each SDK.
FINISH = {
    "chat": {"stop": {"stop"}, "length": {"length"}, "filter": {"content_filter"}, "tools": {"tool_calls"}},
    "responses": {
        "stop": {"completed"},
        "length": {"max_output_tokens"},
        "filter": {"content_filter"},
        "tools": {"completed"},
    },
    "anthropic": {"stop": {"end_turn"}, "length": {"max_tokens"}, "filter": {"refusal"}, "tools": {"tool_use"}},
    # Gemini says STOP for calls too.
    "genai": {
        "stop": {"STOP"},
        "length": {"MAX_TOKENS"},
        "filter": {"SAFETY", "PROHIBITED_CONTENT"},
        "tools": {"STOP"},
    },
}

# What the ids of answers begin with.
ID_PREFIX = {"chat": "chatcmpl-", "responses": "resp_", "anthropic": "msg_", "genai": ""}

# The status a caller sees for a failure of its model's only connection, which is the platform's. The request's own faults keep
# theirs; limits and billing are a 429; a refused credential is not the caller's, and everything else is an upstream that
# does not work: 502.
VISIBLE = {
    400: 400,
    401: 502,
    402: 429,
    403: 502,
    404: 404,
    408: 502,
    409: 502,
    413: 413,
    422: 422,
    425: 502,
    429: 429,
    499: 502,
    500: 502,
    502: 502,
    503: 502,
    504: 502,
    529: 502,
}
# The same where the connection is the caller's own.
VISIBLE_OWN = {401: 401, 403: 403}

# By visible status: OpenAI's types and codes, Anthropic's types, Gemini's canonical statuses.
_INVALID = {"invalid_request_error"}
UPSTREAM_ERROR = {
    400: (_INVALID, {None}, {"invalid_request_error"}, {"INVALID_ARGUMENT"}),
    401: (_INVALID, {"invalid_api_key"}, {"authentication_error"}, {"UNAUTHENTICATED"}),
    # An own key that was refused: the upstream's own code, or ours.
    403: ({"permission_error"}, {None, "invalid_api_key"}, {"permission_error"}, {"PERMISSION_DENIED"}),
    # "No such model" in words an upstream may or may not use.
    404: (_INVALID, {None, "model_not_found"}, {"not_found_error"}, {"NOT_FOUND"}),
    413: (_INVALID, {None, "request_too_large"}, {"request_too_large"}, {"INVALID_ARGUMENT"}),
    422: (_INVALID, {None}, {"invalid_request_error"}, {"INVALID_ARGUMENT"}),
    429: ({"rate_limit_exceeded"}, {"rate_limit_exceeded"}, {"rate_limit_error"}, {"RESOURCE_EXHAUSTED"}),
    502: ({"api_error"}, {"upstream_error"}, {"api_error"}, {"UNAVAILABLE"}),
}
# By refusal of Headgate's own: status, then the same.
REFUSAL = {
    "key": (401, _INVALID, {"invalid_api_key"}, {"authentication_error"}, {"UNAUTHENTICATED"}),
    "balance": (402, {"insufficient_quota"}, {"insufficient_quota"}, {"billing_error"}, {"RESOURCE_EXHAUSTED"}),
    "model": (403, _INVALID, {"model_not_allowed"}, {"permission_error"}, {"PERMISSION_DENIED"}),
    "model_not_found": (404, _INVALID, {"model_not_found"}, {"not_found_error"}, {"NOT_FOUND"}),
    "body": (413, _INVALID, {"request_too_large"}, {"request_too_large"}, {"INVALID_ARGUMENT"}),
    "rpm": (429, {"rate_limit_exceeded"}, {"rate_limit_exceeded"}, {"rate_limit_error"}, {"RESOURCE_EXHAUSTED"}),
}


def words(client, row):
    """The types (or canonical statuses) and the codes that a client's dialect may show, of the last four columns of a row."""
    openai_types, openai_codes, anthropic_types, gemini_statuses = row
    if client == "anthropic":
        return anthropic_types, {None}
    if client == "genai":
        return gemini_statuses, {None}
    return openai_types, openai_codes


# What a client may ask for and an upstream's dialect cannot say: (client, upstream, field) and what is asked.
INEXPRESSIBLE_ERROR = (_INVALID, {"unsupported_parameter", "unsupported_value"}, {"invalid_request_error"}, {"INVALID_ARGUMENT"})
INEXPRESSIBLE = {
    ("chat", "anthropic", "n"): {"n": 2},
    ("chat", "anthropic", "logprobs"): {"logprobs": True},
    ("chat", "anthropic", "logit_bias"): {"logit_bias": {"50256": -100}},
    ("chat", "anthropic", "seed"): {"seed": 7},
    ("chat", "gemini", "logit_bias"): {"logit_bias": {"50256": -100}},
    ("chat", "codeassist", "logit_bias"): {"logit_bias": {"50256": -100}},
    ("responses", "anthropic", "previous_response_id"): {"previous_response_id": "resp_1"},
    ("responses", "gemini", "previous_response_id"): {"previous_response_id": "resp_1"},
    ("anthropic", "openai", "top_k"): {"extra_body": {"top_k": 5}},
    ("genai", "anthropic", "candidateCount"): {"candidate_count": 2},
    ("genai", "openai", "cachedContent"): {"cached_content": "cachedContents/x"},
}
