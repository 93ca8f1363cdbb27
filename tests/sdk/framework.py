"""Checks: how they are written, named, run and told."""

import fnmatch
import time
import traceback
from dataclasses import dataclass, field
from typing import Callable

CLIENTS = ("chat", "responses", "anthropic", "genai")
UPSTREAMS = ("openai", "anthropic", "gemini", "codeassist")
# Which upstream speaks the client's own dialect.
SAME = {"chat": "openai", "responses": "openai", "anthropic": "anthropic", "genai": "gemini"}


class Wrong(Exception):
    """What was seen is not what was expected."""


@dataclass
class Check:
    """One named check of one client and one upstream."""

    name: str
    run: Callable
    arguments: tuple
    needs_gateway: bool


@dataclass
class Outcome:
    """How a run went."""

    passed: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    expected_failures: list = field(default_factory=list)
    # Passed though they are pending.
    stale: list = field(default_factory=list)


CHECKS: list[Check] = []


def check(*, clients=CLIENTS, upstreams=UPSTREAMS, cases=(None,), gateway=True):
    """Registers `run(env, client, upstream[, case])` once for each client, upstream and case; `gateway=False` for what also
    holds of a client that talks to the upstream of its own dialect directly."""

    def register(run):
        for client in clients:
            for upstream in upstreams:
                for case in cases:
                    word = run.__name__ if case is None else f"{run.__name__}.{case}"
                    arguments = (client, upstream) if case is None else (client, upstream, case)
                    CHECKS.append(Check(f"{word} {client}->{upstream}", run, arguments, gateway))
        return run

    return register


def equal(seen, expected, what):
    """They are the same."""
    if seen != expected:
        raise Wrong(f"{what}: expected {expected!r}, saw {seen!r}")


def one_of(seen, allowed, what):
    """It is among them."""
    if seen not in allowed:
        raise Wrong(f"{what}: expected one of {allowed!r}, saw {seen!r}")


def that(holds, what):
    """It holds."""
    if not holds:
        raise Wrong(what)


def raises(error_class, call, what):
    """The call raises exactly this class; the exception."""
    try:
        answer = call()
    except error_class as error:
        if type(error) is not error_class:
            raise Wrong(f"{what}: expected {error_class.__name__}, saw {type(error).__name__}: {error}") from error
        return error
    except Exception as error:
        raise Wrong(f"{what}: expected {error_class.__name__}, saw {type(error).__name__}: {error}") from error
    raise Wrong(f"{what}: expected {error_class.__name__}, saw an answer: {answer!r}"[:600])


def run_all(env, checks, pending, verbose):
    """Runs checks one after another and prints a line for each."""
    outcome = Outcome()
    used = set()
    for check in checks:
        patterns = [pattern for pattern in pending if fnmatch.fnmatchcase(check.name, pattern)]
        used.update(patterns)
        began = time.monotonic()
        problem = _problem(env, check)
        took = f"{(time.monotonic() - began) * 1000:.0f} ms"
        if problem is None and patterns:
            outcome.stale.append(check.name)
            print(f"FAIL {check.name}: passes though it is pending by {patterns[0]!r}: narrow or delete the entry")
        elif problem is None:
            outcome.passed.append(check.name)
            print(f"ok   {check.name} ({took})")
        elif patterns:
            outcome.expected_failures.append(check.name)
            if verbose:
                print(f"pend {check.name}: {problem}")
        else:
            outcome.failed.append(check.name)
            print(f"FAIL {check.name}: {problem}")
    return outcome, used


def _problem(env, check):
    """What goes wrong; `None` if nothing does."""
    try:
        env.fake.reset()
        check.run(env, *check.arguments)
    except Wrong as wrong:
        return str(wrong)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in where if "site-packages" not in frame.filename]
        last = ours[-1] if ours else where[-1]
        return f"{type(error).__name__}: {str(error)[:600]} (at {last.filename.rsplit('/', 1)[-1]}:{last.lineno})"
    return None
