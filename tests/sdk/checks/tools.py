"""Functions: declared, called in parallel, answered, called again."""

from ask import NEWS_TOOL, WEATHER_TOOL, Ask, Round
from expect import FINISH
from framework import check, equal, one_of, that
from upstreams import read
from upstreams.gemini_api import SENTINEL

OSLO, ROME = {"city": "Oslo", "days": 2}, {"city": "Röm “eterna”\n", "days": 1}
TWO_CALLS = [{"name": "get_weather", "arguments": OSLO}, {"name": "get_weather", "arguments": ROME}]
RESULTS = [{"sky": "snow", "degrees": -7}, {"sky": "sun", "degrees": 21}]
THOUGHT = "The user wants two cities."


def _seen(calls):
    return [(call.name, call.arguments) for call in calls]


def _two_calls(env, client, upstream, case="whole", **rule):
    """The first round: two parallel calls, whole or streamed."""
    env.fake.script({"tool_calls": TWO_CALLS, "times": 1, **rule}, {"text": "Oslo is colder."})
    ask = Ask("Which is colder?", tools=[WEATHER_TOOL, NEWS_TOOL])
    asked = env.client(client).ask if case == "whole" else env.client(client).helper
    answer = asked(env.model(upstream), ask)
    equal(_seen(answer.calls), [("get_weather", OSLO), ("get_weather", ROME)], "calls")
    one_of(answer.finish, FINISH[client]["tools"], "finish reason")
    return ask, answer


@check(gateway=False)
def tools(env, client, upstream):
    """Two rounds: two parallel calls, their results sent back, an answer."""
    ask, answer = _two_calls(env, client, upstream)
    first = read(env.fake.last())
    equal(sorted(first.tools), ["get_news", "get_weather"], "functions declared upstream")
    equal(sorted(first.tools["get_weather"]["properties"]), ["city", "days"], "parameters declared upstream")
    if client != "genai":
        ids = [call.id for call in answer.calls]
        that(all(ids) and len(set(ids)) == 2, f"ids are there and differ: {ids}")
    ask.rounds = [Round(answer, list(zip(answer.calls, RESULTS)))]
    last = env.client(client).ask(env.model(upstream), ask)
    equal(last.text, "Oslo is colder.", "the second answer")
    one_of(last.finish, FINISH[client]["stop"], "finish reason")
    expected = [("get_weather", OSLO, RESULTS[0]), ("get_weather", ROME, RESULTS[1])]
    equal(read(env.fake.last()).answered_calls(), expected, "calls and results upstream")


@check(clients=("chat", "responses", "anthropic"), gateway=False)
def tools_in_any_order(env, client, upstream):
    """Results may come back in another order than their calls: ids pair them."""
    ask, answer = _two_calls(env, client, upstream)
    pairs = list(zip(answer.calls, RESULTS))
    ask.rounds = [Round(answer, pairs[::-1])]
    equal(env.client(client).ask(env.model(upstream), ask).text, "Oslo is colder.", "the second answer")
    expected = [("get_weather", OSLO, RESULTS[0]), ("get_weather", ROME, RESULTS[1])]
    equal(read(env.fake.last()).answered_calls(), expected, "calls and results upstream")


@check(cases=("in_turn", "interleaved"), gateway=False)
def tools_streamed(env, client, upstream, case):
    """Streamed arguments are whole, also when the fragments of two calls take turns."""
    env.fake.script({"tool_calls": TWO_CALLS, "interleaved": case == "interleaved"})
    ask = Ask("Which is colder?", tools=[WEATHER_TOOL])
    answer = env.client(client).stream(env.model(upstream), ask)
    equal(_seen(answer.calls), [("get_weather", OSLO), ("get_weather", ROME)], "calls")
    one_of(answer.finish, FINISH[client]["tools"], "finish reason")
    helped = env.client(client).helper(env.model(upstream), ask)
    equal(_seen(helped.calls), _seen(answer.calls), "calls through the SDK's helper")


@check(gateway=False)
def tools_without_arguments(env, client, upstream):
    """A call without arguments has an empty object, whole and streamed."""
    env.fake.script({"tool_calls": [{"name": "get_news", "arguments": {}}]})
    ask = Ask("What is new?", tools=[NEWS_TOOL])
    equal(_seen(env.client(client).ask(env.model(upstream), ask).calls), [("get_news", {})], "whole")
    equal(_seen(env.client(client).stream(env.model(upstream), ask).calls), [("get_news", {})], "streamed")


@check(cases=("none", "any", "get_news"), gateway=False)
def tool_choice(env, client, upstream, case):
    """Whether and what must be called is said in the upstream's words."""
    env.client(client).ask(env.model(upstream), Ask(tools=[WEATHER_TOOL, NEWS_TOOL], choice=case))
    equal(read(env.fake.last()).choice, case, "tool choice upstream")


@check(upstreams=("anthropic", "gemini", "codeassist"), cases=("whole", "streamed"))
def signatures(env, client, upstream, case):
    """What proves the upstream's thoughts comes back to it with the results, through another replica and whatever the client."""
    ask, answer = _two_calls(env, client, upstream, case, thinking=THOUGHT)
    signature = f"sign{env.fake.last()['id']:024}"
    ask.think = True
    ask.rounds = [Round(answer, list(zip(answer.calls, RESULTS)))]
    env.client(client).ask(env.model(upstream), ask)
    seen = read(env.fake.last())
    if upstream == "anthropic":
        equal(seen.parts("thinking"), [("thinking", THOUGHT, signature)], "the signed thought upstream")
    else:
        equal(seen.signatures[0], signature, "the signature on the first call upstream")


@check(upstreams=("gemini", "codeassist"))
def foreign_calls(env, client, upstream):
    """Calls that another upstream made carry the documented sentinel instead of a signature that cannot exist."""
    ask, answer = _two_calls(env, client, "openai")
    ask.rounds = [Round(answer, list(zip(answer.calls, RESULTS)))]
    env.client(client).ask(env.model(upstream), ask)
    if client == "genai":
        # The SDK speaks Gemini: what it was not given it does not send, and the bytes pass through.
        return
    allowed = {"gemini": {SENTINEL}, "codeassist": {SENTINEL, None}}
    one_of(read(env.fake.last()).signatures[0], allowed[upstream], "the signature on the first call upstream")
