"""What is said: system prompts, conversations, images, structured answers."""

import json

from ask import Ask, Weather
from checks.failures import refused_field
from framework import SAME, check, equal, that
from upstreams import read

# Every byte value is in it, so its base64 has `+` and `/` (or `-` and `_`).
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@check(gateway=False)
def system(env, client, upstream):
    """A system prompt is the upstream's system prompt."""
    env.client(client).ask(env.model(upstream), Ask("Who are you?", system="You are a lighthouse."))
    seen = read(env.fake.last())
    equal(seen.system, "You are a lighthouse.", "system prompt")
    equal(seen.texts(), [("user", "Who are you?")], "turns")


@check(gateway=False)
def conversation(env, client, upstream):
    """Earlier turns are told in order, by who said them."""
    turns = [("user", "One"), ("assistant", "Two"), ("user", "Three"), ("assistant", "Four")]
    env.client(client).ask(env.model(upstream), Ask("Five", turns=turns))
    equal(read(env.fake.last()).texts(), [*turns, ("user", "Five")], "turns")


@check(gateway=False)
def image(env, client, upstream):
    """An inline image arrives byte for byte, in the alphabet the upstream reads."""
    env.client(client).ask(env.model(upstream), Ask("What is this?", image=PNG))
    seen = read(env.fake.last())
    equal(seen.parts("image"), [("image", "image/png", PNG)], "image")
    equal(seen.texts(), [("user", "What is this?")], "text")


@check(gateway=False)
def structured(env, client, upstream):
    """A JSON schema reaches the upstream in its own form, and the SDK's helper parses the answer."""
    env.fake.script({"text": '{"city": "Oslo", "degrees": -7}'})
    parsed = env.client(client).parse(env.model(upstream), Ask("How cold is Oslo?", schema=Weather))
    equal(parsed, Weather(city="Oslo", degrees=-7), "what the helper parsed")
    schema = read(env.fake.last()).schema
    that(schema is not None, "a schema went upstream")
    equal(sorted(schema["properties"]), ["city", "degrees"], "its properties")
    equal(sorted(schema["required"]), ["city", "degrees"], "what it requires")
    equal(schema["properties"]["degrees"]["type"].lower(), "integer", "a type")


@check(clients=("chat", "responses", "anthropic"), upstreams=("gemini", "codeassist"))
def remote_image(env, client, upstream):
    """An image elsewhere is not fetched unless the operator says so: it is a 400 that says where it stands."""
    ask = Ask("What is this?", image_url="https://images.example/x.png")
    refused_field(env, client, lambda: env.client(client).ask(env.model(upstream), ask), "image")


@check(clients=("chat",))
def developer_prompt(env, client, upstream):
    """OpenAI's newer name for a system prompt means the same everywhere."""
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    env.client(client).sdk.take().chat.completions.create(model=env.model(upstream), messages=messages)
    seen = read(env.fake.last())
    equal((seen.system, seen.texts()), ("Be brief.", [("user", "Hi")]), "system prompt and turns")


@check(clients=("chat", "responses", "anthropic"))
def unknown_fields(env, client, upstream):
    """A field nobody knows survives into its own dialect and is refused, by name, for any other."""
    call = lambda: env.client(client).ask(env.model(upstream), Ask(extra={"extra_body": {"x_new": [1.0]}}))  # noqa: E731
    if SAME[client] == upstream:
        call()
        equal(json.loads(env.fake.last()["body"]).get("x_new"), [1.0], "the field upstream")
    else:
        refused_field(env, client, call, "x_new")
