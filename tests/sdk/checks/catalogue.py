"""Models, embeddings and token counts."""

import math

from ask import Ask
from fake import vector_of
from framework import UPSTREAMS, check, equal, that


@check(clients=("chat", "anthropic", "genai"), upstreams=("openai",))
def models(env, client, upstream):
    """The list is in the caller's dialect and names only what the key may use."""
    everything = env.client(client).models()
    that({f"m-{name}" for name in UPSTREAMS} <= set(everything), f"all models: {everything[:8]}")
    equal(sorted(env.client(client, "narrow").models()), ["m-gemini", "m-openai"], "models of a narrow key")


@check(clients=("chat",), upstreams=("openai",))
def one_model(env, client, upstream):
    """One model can be asked for by name."""
    model = env.client(client).sdk.take().models.retrieve("m-openai")
    equal((model.id, model.object), ("m-openai", "model"), "model")


@check(clients=("chat", "genai"), upstreams=("openai", "gemini"))
def embeddings(env, client, upstream):
    """Vectors come back number for number, one for each text, whatever encoding the SDK asked for."""
    texts = ["a lighthouse", "eine Straße", "42"]
    # Google's SDK joins the texts for models whose name says Gemini: those would be one embedding.
    vectors = env.client(client).embed(f"embed-{upstream.replace('gemini', 'google')}", texts)
    equal(len(vectors), len(texts), "vectors")
    for text, vector in zip(texts, vectors):
        expected = vector_of(text)
        close = len(vector) == len(expected) and all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(vector, expected))
        that(close, f"vector of {text!r}: expected {expected}, saw {vector}")


@check(clients=("anthropic", "genai"))
def count_tokens(env, client, upstream):
    """Tokens are counted by the upstream where it can, else estimated."""
    env.fake.script({"tokens": {"prompt": 4321}})
    counted = env.client(client).count(env.model(upstream), Ask("How long is this?"))
    if upstream == "openai" and not env.fake.calls():
        that(0 < counted < 4321, f"an estimate: {counted}")
    else:
        equal(counted, 4321, "tokens")
