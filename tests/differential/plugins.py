"""Our adaptation and the reference's, each with the same plugins in Go attached, get the same random requests.

    python -m tests.differential.plugins [--requests N] [--threads N] [--mode reference|default] [--seed N]

With one thread an allocator that remembers takes part; with more, all plugins answer by the request alone, so that
whatever comes first, each request has one outcome. Compared are errors, replies, and what each plugin was shown: the
validator is shown the owners of all fields. In default mode what docs/deviations.md says is put right first, by rule;
how often is counted. Findings are printed; exit code 1 if there was one.
"""

import argparse
import difflib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict, MessageToJson
from google.protobuf.message import Message

from tests.differential.attached import LATE_MS, TIMEOUT_S, Exchange, Records, attached, retell, tell
from tests.differential.compare import TIMES
from tests.differential.expected import Expected, follow
from tests.differential.oracle import Oracle
from tests.differential.requests import ANSWERING, OPS
from tests.support.sides import GoSide, Mode, OurSide, Outcome, Request


class Finding(NamedTuple):
    """A difference: in which part of which request, and both values."""

    request: Request
    part: str
    reference: Any
    ours: Any

    def __str__(self) -> str:
        """For a person: what was asked, and the difference."""
        request = self.request
        requests = (_text(entry) for entry in (request.pod, request.container, request.resources))
        diff = difflib.unified_diff(_lines(self.reference), _lines(self.ours), "reference", "ours", lineterm="", n=2)
        head = f"{request.event} {request.pod.annotations['request.test/id']}: {self.part}"
        return "\n".join((head, *(f"  asked: {entry}" for entry in requests), *(f"  {line}" for line in diff)))


def compare(
    mode: Mode, messages: list[list[Exchange]], outcomes: list[list[Outcome]], remote: Records, local: Records
) -> tuple[list[Finding], Counter[str]]:
    """All differences, and how often each rule of the default mode explains one."""
    findings: list[Finding] = []
    rules: Counter[str] = Counter()
    requests: dict[str, tuple[Exchange, Expected]] = {}
    for exchanges, results in zip(messages, outcomes, strict=True):
        names: set[str] = set()
        for exchange, result in zip(exchanges, results, strict=True):
            expected = Expected(mode, frozenset(names), _silent(exchange.request), rules)
            requests[exchange.request.pod.annotations["request.test/id"]] = exchange, expected
            findings += _compare_outcomes(exchange, result, expected)
            follow(names, *exchange)
    wrong = {finding.request.pod.annotations["request.test/id"] for finding in findings}
    for key in sorted(remote.seen.keys() | local.seen.keys()):
        plugin, number, event = key
        if number not in wrong:
            exchange, expected = requests[number]
            want, got = remote.seen.get(key), local.seen.get(key)
            failed = exchange.outcome.error is not None
            if want is None and got is not None and expected.shown_to_more(event, failed=failed):
                continue
            findings += _compare_shown(exchange.request, f"shown to {plugin} at {event}", expected, want, got)
    return findings, rules


def _silent(request: Request) -> frozenset[str]:
    """The plugins that do not answer a creation: one does not get it, and one may be too late."""
    late = f'"delay_ms": {LATE_MS}' in request.pod.annotations.get("slow.test/CreateContainer", "")
    return frozenset(("validator", "slow")) if late else frozenset(("validator",))


def _compare_outcomes(exchange: Exchange, result: Outcome, expected: Expected) -> Iterator[Finding]:
    error, reply = expected.error(exchange.outcome.error, result.error), expected.reply(exchange.outcome.reply)
    if error != result.error:
        yield Finding(exchange.request, "error", error, result.error)
    elif reply != result.reply:
        yield Finding(exchange.request, "reply", reply, result.reply)


def _compare_shown(request: Request, part: str, expected: Expected, remote: Any, local: Any) -> Iterator[Finding]:
    if remote is None or local is None:
        yield Finding(request, part, remote is not None, local is not None)
        return
    for want, got in zip(map(expected.shown, remote), local, strict=True):
        if want != got:
            yield Finding(request, part, want, got)


def _dict(message: Any) -> Any:
    return None if message is None else MessageToDict(message, preserving_proto_field_name=True)


def _text(value: Any) -> str:
    return MessageToJson(value, indent=None, sort_keys=True) if isinstance(value, Message) else str(value)


def _lines(value: Any) -> list[str]:
    return (MessageToJson(value, sort_keys=True) if isinstance(value, Message) else str(value)).splitlines()


def by_chance(oracle: Oracle, request: Request) -> bool:
    """Whether the reference has several outcomes for it: it walks some maps in random order."""
    if request.event not in OPS:
        return False
    plugins = [
        {"name": name, "index": index, **json.loads(request.pod.annotations.get(f"{name}.test/{request.event}", "{}"))}
        for index, name in ANSWERING.items()
    ]
    parts = {name: _dict(getattr(request, name)) for name in ("pod", "container", "resources")}
    return len(oracle.answers({"id": "case", "op": OPS[request.event], **parts, "plugins": plugins}, TIMES)) > 1


class Result(NamedTuple):
    """One run.

    Attributes:
        requests, failures: how many there were, at the reference.
        rules: how often each rule of the default mode explains a difference.
    """

    requests: int
    failures: int
    findings: list[Finding]
    rules: Counter[str]


def run(mode: Mode, *, requests: int, threads: int, seed: int, late: int = 0) -> Result:
    """Tell the stories of a seed to both sides, and compare."""
    with tempfile.TemporaryDirectory(prefix="nri-sides-") as name:
        folder = Path(name)
        with GoSide(folder, request_timeout_s=TIMEOUT_S) as go, attached(go, folder / "go", threads) as remote:
            messages = tell(go, seed, threads, requests, tame=mode == "default", late=late)
        with OurSide(folder, mode, request_timeout_s=TIMEOUT_S) as us, attached(us, folder / "ours", threads) as local:
            outcomes = retell(us, messages)
        findings, rules = compare(mode, messages, outcomes, remote, local)
    with Oracle() as oracle:
        certain = [finding for finding in findings if not by_chance(oracle, finding.request)]
    rules["left to chance"] = len(findings) - len(certain)
    failures = sum(exchange.outcome.error is not None for exchanges in messages for exchange in exchanges)
    return Result(sum(map(len, messages)), failures, certain, rules)


def main() -> int:
    """Parse the arguments, run, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.plugins", description=__doc__)
    parser.add_argument("--requests", type=int, default=1000, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--mode", choices=("reference", "default"), default="reference")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: by the clock")
    parser.add_argument("--late", type=int, default=0, metavar="N", help="answers that come too late; 5 s each")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    began = time.monotonic()
    result = run(options.mode, requests=options.requests, threads=options.threads, seed=seed, late=options.late)
    for finding in result.findings[:20]:
        print(finding)
    rules = ", ".join(f"{rule} {count}" for rule, count in result.rules.items()) or "none"
    print(
        f"seed {seed}, {options.mode}: {result.requests} requests by {options.threads} threads, {result.failures} of"
        f" them refused; {len(result.findings)} findings; by rule: {rules}; {time.monotonic() - began:.0f} s"
    )
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
