"""Plain answers: whole, streamed, their ends, their usage."""

import json
import urllib.request

from ask import Ask, Usage
from expect import FINISH, ID_PREFIX
from fake import UPSTREAM_MODEL
from framework import CLIENTS, check, equal, one_of, that
from upstreams import read

TOKENS = {"prompt": 100, "cached": 40, "completion": 50, "reasoning": 20}
USAGE = Usage(input=100, cached=40, output=50, reasoning=20)
TEXT = "Grüße, 世界 😀: a “quoted” line\nand \\ another."


@check(gateway=False)
def unary(env, client, upstream):
    """A whole answer, under the caller's own name of the model."""
    env.fake.script({"text": TEXT})
    answer = env.client(client).ask(env.model(upstream), Ask("Good morning"))
    equal(answer.text, TEXT, "text")
    equal(answer.model, env.model(upstream), "model")
    one_of(answer.finish, FINISH[client]["stop"], "finish reason")
    that(answer.id and answer.id.startswith(ID_PREFIX[client]), f"an id of the dialect: {answer.id}")
    that(answer.usage and answer.usage.input > 0 and answer.usage.output > 0, f"usage is reported: {answer.usage}")
    seen = read(env.fake.last())
    equal(seen.texts(), [("user", "Good morning")], "what the upstream was told")


@check(gateway=False)
def stream(env, client, upstream):
    """A streamed answer is the whole one in pieces, with usage at the end."""
    env.fake.script({"text": TEXT, "chunks": 7, "tokens": TOKENS})
    whole = env.client(client).ask(env.model(upstream), Ask())
    streamed = env.client(client).stream(env.model(upstream), Ask())
    equal(streamed.text, whole.text, "text")
    that(len(streamed.pieces) > 3, f"it came in pieces: {streamed.pieces}")
    one_of(streamed.finish, FINISH[client]["stop"], "finish reason")
    equal(streamed.usage, whole.usage, "usage")
    equal(streamed.model, env.model(upstream), "model")
    that(streamed.id.startswith(ID_PREFIX[client]), f"an id of the dialect: {streamed.id}")


@check(gateway=False)
def stream_helper(env, client, upstream):
    """The SDK's own accumulating helper, which is the strictest reader there is, takes the stream."""
    env.fake.script({"text": TEXT, "tokens": TOKENS})
    answer = env.client(client).helper(env.model(upstream), Ask())
    equal(answer.text, TEXT, "text")
    one_of(answer.finish, FINISH[client]["stop"], "finish reason")


@check(gateway=False)
def usage(env, client, upstream):
    """Cached and reasoning tokens are counted in the caller's own way, whole and streamed."""
    env.fake.script({"tokens": TOKENS})
    equal(env.client(client).ask(env.model(upstream), Ask()).usage, USAGE, "whole")
    equal(env.client(client).stream(env.model(upstream), Ask()).usage, USAGE, "streamed")


@check(cases=("length", "filter"), gateway=False)
def finish(env, client, upstream, case):
    """Why an answer ended early is said in the SDK's own words."""
    env.fake.script({"text": "half an", "finish": case})
    for answer in (
        env.client(client).ask(env.model(upstream), Ask()),
        env.client(client).stream(env.model(upstream), Ask()),
    ):
        one_of(answer.finish, FINISH[client][case], "finish reason")
        equal(answer.text, "half an", "text")


@check(clients=("chat", "anthropic", "genai"), gateway=False)
def stop_sequences(env, client, upstream):
    """Stop texts reach the upstream; Anthropic's own says which one it was."""
    env.fake.script({"text": "so far", "stop_text": "HALT"})
    answer = env.client(client).ask(env.model(upstream), Ask(stop=["END", "HALT"]))
    equal(read(env.fake.last()).stop, ["END", "HALT"], "stop texts upstream")
    named = client == "anthropic" and upstream == "anthropic"
    one_of(answer.finish, {"stop_sequence"} if named else FINISH[client]["stop"] | {"stop_sequence"}, "finish reason")


@check(cases=("lf", "crlf", "cr", "bytes", "comments"))
def framing(env, client, upstream, case):
    """How the upstream frames and splits its stream changes nothing."""
    rules = {
        "lf": {},
        "crlf": {"eol": "crlf"},
        "cr": {"eol": "cr", "split_at": 3},
        "bytes": {"split_at": 1},
        "comments": {"comment": "still here", "bom": True},
    }
    env.fake.script({"text": TEXT, "chunks": 5, **rules[case]})
    equal(env.client(client).stream(env.model(upstream), Ask()).text, TEXT, "text")


@check()
def replicas(env, client, upstream):
    """Nothing of the caller's credential goes upstream, whichever replica it came through; the connection's own does."""
    for _ in range(2):
        env.client(client).ask(env.model(upstream), Ask())
    for call in env.fake.calls():
        that(env.key not in json.dumps(call), "the client key went upstream")
        that(f"cred-{upstream}" in call["credential"], f"the connection's credential: {call['credential']}")
        equal(call["model"], UPSTREAM_MODEL[upstream], "the model's name upstream")


@check(clients=("genai",), cases=("v1", "v1beta", "v1alpha"))
def versions(env, client, upstream, case):
    """Google's SDK may be set to any version of the path."""
    google = env.google(case)
    env.fake.script({"text": TEXT})
    equal(google.ask(env.model(upstream), Ask()).text, TEXT, "whole")
    equal(google.stream(env.model(upstream), Ask()).text, TEXT, "streamed")


@check(clients=("genai",), gateway=False)
def json_array(env, client, upstream):
    """`streamGenerateContent` without `alt=sse` is one JSON array."""
    env.fake.script({"text": TEXT, "chunks": 3})
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    url = f"{env.bases[0]}/v1beta/models/{env.model(upstream)}:streamGenerateContent"
    headers = {"content-type": "application/json", "x-goog-api-key": env.key}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers, method="POST")
    with env.opener.open(request, timeout=20) as answer:
        equal(answer.headers.get_content_type(), "application/json", "content type")
        chunks = json.loads(answer.read())
    that(isinstance(chunks, list) and len(chunks) > 1, f"a list of chunks: {chunks}")
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"].get("parts", [])]
    equal("".join(part.get("text", "") for part in parts), TEXT, "text")
    equal(chunks[-1]["candidates"][0]["finishReason"], "STOP", "finish reason")
    that(chunks[-1]["usageMetadata"]["totalTokenCount"] > 0, "usage at the end")


@check(clients=[name for name in CLIENTS if name != "anthropic"])
def sampling(env, client, upstream):
    """A temperature reaches the upstream, in its own range; so does the most tokens of an answer."""
    env.client(client).ask(env.model(upstream), Ask(temperature=0.25, max_tokens=77))
    seen = read(env.fake.last())
    equal((seen.temperature, seen.max_tokens), (0.25, 77), "temperature and max tokens")
