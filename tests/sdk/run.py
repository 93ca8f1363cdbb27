#!/usr/bin/env python3
"""Drives the official SDKs through Headgate's replicas against a fake upstream of every dialect, and prints what held.

    run.py --base URL --base URL --key SECRET --fake URL [--only TEXT] [--list] [--verbose]
    run.py --direct --fake URL      each SDK against the fake's own form of its dialect: checks the suite and the fake

Exit code 0: every check passed, or failed and is pending (pending.py). Needs the packages of requirements.txt.
"""

import argparse
import sys
import urllib.request
from collections import Counter

import checks  # noqa: F401  (registers the checks)
import framework
from clients.anthropic_sdk import Anthropic
from clients.chat import Chat
from clients.genai_sdk import Genai
from clients.responses import Responses
from fake import UPSTREAM_MODEL, Fake
from pending import PENDING

SDKS = {"chat": Chat, "responses": Responses, "anthropic": Anthropic, "genai": Genai}


class Env:
    """What a check works with."""

    def __init__(self, bases, key, fake, direct):
        self.bases, self.key, self.fake, self.direct = bases, key, fake, direct
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._clients = {}
        self._used = Counter()

    def client(self, name, key="sdk"):
        """An SDK client that calls the replicas in turn; `key` is the id of a client key of the configuration."""
        secret = self.key if key == "sdk" else f"hg-{key}-secret"
        if (name, key) not in self._clients:
            self._clients[name, key] = SDKS[name](self.bases, secret)
        return self._clients[name, key]

    def google(self, version):
        """Google's client on a version of the path."""
        return Genai(self.bases, self.key, version)

    def model(self, upstream):
        """The model that this upstream serves."""
        return UPSTREAM_MODEL[upstream] if self.direct else f"m-{upstream}"

    def fresh(self, upstream, kind="one"):
        """A model on a connection of its own that no check has used: what a failure leaves behind disturbs nobody."""
        self._used[kind, upstream] += 1
        return f"{kind}-{upstream}-{self._used[kind, upstream]}"


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description="Conformance of Headgate to the official SDKs.")
    parser.add_argument("--base", action="append", default=[], help="a replica's URL, without a path; once for each")
    parser.add_argument("--key", default="none", help="the secret of a client key without limits")
    parser.add_argument("--fake", required=False, help="the fake upstream's URL")
    parser.add_argument("--only", default="", help="only checks whose name contains this")
    parser.add_argument("--direct", action="store_true", help="call the fake itself, each SDK its own dialect")
    parser.add_argument("--list", action="store_true", help="print the names of the checks and stop")
    parser.add_argument("--verbose", action="store_true", help="say why pending checks fail")
    return parser.parse_args()


def chosen(options):
    """The checks to run."""
    selected = [check for check in framework.CHECKS if options.only in check.name]
    if options.direct:
        own = {f"{client}->{upstream}" for client, upstream in framework.SAME.items()}
        selected = [check for check in selected if not check.needs_gateway and check.name.split()[-1] in own]
    return selected


def main():
    """Runs and tells; the exit code."""
    options = arguments()
    selected = chosen(options)
    if options.list:
        print("\n".join(check.name for check in selected))
        return 0
    bases = [options.fake] if options.direct else options.base
    if not options.fake or not bases or not selected:
        print("nothing to run: --fake and --base are needed, and --only must fit some check", file=sys.stderr)
        return 2
    env = Env(bases, options.key, Fake(options.fake), options.direct)
    pending = {} if options.direct else PENDING
    outcome, used = framework.run_all(env, selected, pending, options.verbose)
    unused = [] if options.only else [pattern for pattern in pending if pattern not in used]
    for pattern in unused:
        print(f"FAIL pending entry {pattern!r} names no check: delete it")
    for pattern, reason in pending.items():
        if pattern in used:
            print(f"pending: {pattern} ({reason})")
    bad = len(outcome.failed) + len(outcome.stale) + len(unused)
    told = f"{len(outcome.passed)} passed, {bad} failed, {len(outcome.expected_failures)} pending"
    print(f"{told}, of {len(selected)} checks")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
