"""Errors: of upstreams and of Headgate, before and after content, as the SDK's own exceptions."""

from ask import Ask
from clients import anthropic_sdk, chat, genai_sdk, responses
from expect import INEXPRESSIBLE, INEXPRESSIBLE_ERROR, REFUSAL, UPSTREAM_ERROR, VISIBLE, VISIBLE_OWN, words
from framework import Wrong, check, equal, one_of, raises, that

MODULES = {"chat": chat, "responses": responses, "anthropic": anthropic_sdk, "genai": genai_sdk}
HTML = "<html><head><title>502 Bad Gateway</title></head><body>cloud</body></html>"


def _typed(env, client, status, row, call, what):
    """The call raises the SDK's exception for a status, with the dialect's type and code; the exception."""
    error = raises(MODULES[client].ERRORS[status], call, what)
    seen_status, kind, code = env.client(client).describe(error)
    equal(seen_status, status, "status")
    types, codes = words(client, row)
    one_of(kind, types, "type")
    one_of(code, codes, "code")
    if status == 429:
        wait = env.client(client).header(error, "retry-after")
        that(wait and wait.isdigit() and int(wait) >= 1, f"retry-after in whole seconds: {wait!r}")
    return error


def refused_field(env, client, call, field):
    """The call is a 400 of Headgate's own that names the field."""
    error = _typed(env, client, 400, INEXPRESSIBLE_ERROR, call, field)
    that(field in str(error), f"the field {field} is named: {error}")
    that(not env.fake.calls(), "no upstream was called")


@check(cases=tuple(VISIBLE))
def status(env, client, upstream, case):
    """A failure of the only connection raises what the SDK raises for that status."""
    env.fake.script({"status": case})
    model, visible = env.fresh(upstream), VISIBLE[case]
    call = lambda: env.client(client).ask(model, Ask())  # noqa: E731
    _typed(env, client, visible, UPSTREAM_ERROR[visible], call, f"upstream status {case}")
    that(env.fake.calls(), "an upstream was called")


@check(cases=tuple(VISIBLE_OWN))
def own_key(env, client, upstream, case):
    """A refused credential of the caller's own is told as it was."""
    env.fake.script({"status": case})
    model, visible = env.fresh(upstream, "own"), VISIBLE_OWN[case]
    call = lambda: env.client(client, "owner").ask(model, Ask())  # noqa: E731
    _typed(env, client, visible, UPSTREAM_ERROR[visible], call, f"upstream status {case}")


@check(cases=(400, 503))
def status_of_a_stream(env, client, upstream, case):
    """A stream that fails before its first content is an HTTP error, not a broken stream."""
    env.fake.script({"status": case})
    model, visible = env.fresh(upstream), VISIBLE[case]
    call = lambda: env.client(client).stream(model, Ask())  # noqa: E731
    _typed(env, client, visible, UPSTREAM_ERROR[visible], call, f"upstream status {case}")


@check()
def error_before_content(env, client, upstream):
    """An error event before any content is an HTTP error."""
    env.fake.script({"error_event_after_chunks": 0})
    model = env.fresh(upstream)
    call = lambda: env.client(client).stream(model, Ask())  # noqa: E731
    _typed(env, client, 502, UPSTREAM_ERROR[502], call, "error event first")


@check(cases=("html", "empty", "list", "error_in_200"))
def odd_body(env, client, upstream, case):
    """Whatever the body of a failure is, the SDK finds its own envelope."""
    said = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE", "type": "server_error"}
    error = {"error": said}
    rules = {
        "html": {"status": 502, "body": HTML, "content_type": "text/html"},
        "empty": {"status": 500, "empty_body": True},
        "list": {"status": 503, "body": [error]},
        "error_in_200": {"body": error},
    }
    env.fake.script(rules[case])
    model = env.fresh(upstream)
    call = lambda: env.client(client).ask(model, Ask())  # noqa: E731
    error = _typed(env, client, 502, UPSTREAM_ERROR[502], call, case)
    that("<html" not in str(error), f"no page of someone else: {error}")


@check(cases=("error_event", "cut", "fin", "reset"))
def broken_stream(env, client, upstream, case):
    """A stream that breaks after content raises the SDK's own error after that content, and never looks complete."""
    field = {
        "error_event": "error_event_after_chunks",
        "cut": "cut_after_chunks",
        "fin": "drop_after_chunks",
        "reset": "reset_after_chunks",
    }
    env.fake.script({"text": "one two three four five", "chunks": 5, field[case]: 2, "delay_between_ms": 20})
    pieces, model = [], env.fresh(upstream)
    error = raises(MODULES[client].BROKEN, lambda: env.client(client).stream(model, Ask(), pieces), case)
    said = "".join(pieces)
    that(said and "one two three four five".startswith(said), f"what came before is kept: {said!r}")
    seen_status, kind, code = env.client(client).describe(error)
    if client == "genai":
        that(500 <= seen_status < 600 and kind, f"a code and a status: {seen_status} {kind}")
    elif client == "anthropic":
        one_of(kind, {"api_error", "overloaded_error"}, "type")
    else:
        that(kind and code, f"a type and a code: {kind} {code}")


def _refused(env, client, word, call):
    status, *row = REFUSAL[word]
    error = _typed(env, client, status, row, call, word)
    equal(env.client(client).header(error, "x-headgate-refusal"), word, "x-headgate-refusal")
    that(not env.fake.calls(), "no upstream was called")


@check(upstreams=("openai",), cases=("key", "balance", "model", "model_not_found", "body", "rpm"))
def refusal(env, client, upstream, case):
    """What Headgate itself says no to raises the SDK's exception, with Headgate's words in the caller's dialect."""
    keys = {"key": "nobody", "balance": "broke", "model": "narrow", "rpm": f"rpm-{client}"}
    model = {"model": "embed-openai", "model_not_found": "m-none"}.get(case, "m-openai")
    ask = Ask("x" * (2 << 20)) if case == "body" else Ask()
    caller = env.client(client, keys.get(case, "sdk"))
    if case == "rpm":
        # The key may send one request a minute.
        caller.ask(model, ask)
        env.fake.reset()
    _refused(env, client, case, lambda: caller.ask(model, ask))


@check(upstreams=("openai",))
def refused_stream(env, client, upstream):
    """A refusal of a stream is an HTTP error too."""
    _refused(env, client, "key", lambda: env.client(client, "nobody").stream("m-openai", Ask()))


@check(clients=("chat", "anthropic", "genai"), upstreams=("openai",))
def refused_list(env, client, upstream):
    """Who has no key lists no models."""
    try:
        listed = env.client(client, "nobody").models()
    except MODULES[client].ERRORS[401] as error:
        equal(env.client(client).describe(error)[0], 401, "status")
    else:
        raise Wrong(f"a list without a key: {listed}")


for _client, _upstream, _field in INEXPRESSIBLE:

    @check(clients=(_client,), upstreams=(_upstream,), cases=(_field,))
    def inexpressible(env, client, upstream, case):
        """What the upstream's dialect cannot say is a 400 that names the caller's field, not a silent loss."""
        extra = INEXPRESSIBLE[client, upstream, case]
        call = lambda: env.client(client).ask(env.model(upstream), Ask(extra=extra))  # noqa: E731
        refused_field(env, client, call, case)
