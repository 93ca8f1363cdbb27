"""Reasoning: asked for, shown, kept apart from the text."""

from ask import Ask
from framework import check, equal, one_of, that
from upstreams import read

THOUGHT, TEXT = "Let me think: 6 × 7.", "It is 42."


@check(gateway=False)
def thinking(env, client, upstream):
    """Effort reaches the upstream in its own form, and thoughts come back in the SDK's own field, whole and streamed."""
    env.fake.script({"thinking": THOUGHT, "text": TEXT})
    whole = env.client(client).ask(env.model(upstream), Ask("6 × 7?", think=True))
    seen = read(env.fake.last())
    equal(seen.effort, "medium", "effort upstream")
    if client != "chat" and seen.thoughts_wanted is not None:
        that(seen.thoughts_wanted, "thoughts are asked for")
    streamed = env.client(client).stream(env.model(upstream), Ask("6 × 7?", think=True))
    for answer in (whole, streamed):
        equal((answer.thoughts, answer.text), (THOUGHT, TEXT), "thoughts and text")


@check(gateway=False)
def no_thinking(env, client, upstream):
    """Who does not ask for thinking does not change what the model does."""
    env.client(client).ask(env.model(upstream), Ask())
    one_of(read(env.fake.last()).effort, {None}, "effort upstream")
