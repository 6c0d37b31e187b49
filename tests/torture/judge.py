"""What must hold of every attack, as assertions on its outcome that say what went wrong.

Healthy plugins get every event in order; nothing fails that the attack's row does not allow; no event takes longer than
a multiple of the request timeout; memory, descriptors, threads and log stay within bounds, and are given back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nri.plugin_policy.policy import DISPOSAL_EVENTS
from tests.torture.course import Outcome

#: Events that pass waiting ones of other pods, in each plugin others; those of one thread keep their order.
PASSING = frozenset(spec.rpc for spec in DISPOSAL_EVENTS)
#: A line of the log that is really one.
LINE = re.compile(rb"(DEBUG|INFO|WARNING|ERROR|CRITICAL) nri[.\w]*: ")
#: What no line may have: control characters but the newline, and marks that turn the direction of a text.
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
LINE_BYTES = 6000
#: A machine at work wakes a thread so much too late, in seconds; see stillness.py.
SLACK_S = 0.25
#: Descriptors and threads that an attack may hold on top, while it runs, and afterwards.
MOST = {"descriptors": 200, "threads": 40}
AFTER = {"descriptors": 2, "threads": 0}


def faults(outcome: Outcome) -> list[str]:
    """Return a line for each violated condition."""
    matches = [*_events(outcome), *_plugins(outcome), *_holdings(outcome), *_log(outcome)]
    if outcome.attack.check is not None:
        try:
            outcome.attack.check(outcome)
        except AssertionError as error:
            matches.append(str(error).splitlines()[0] if str(error) else "its own check failed")
    return matches


def _events(outcome: Outcome) -> Iterator[str]:
    attack = outcome.attack
    if not any(outcome.count.values()):
        yield "the attack did nothing"
    if attack.refusals and attack.fails and not outcome.refused:
        yield "nothing was refused"
    if outcome.rest.get("hanging"):
        yield f"events hang: {outcome.rest['hanging']}"
    for number, thread in enumerate(outcome.events):
        if len(thread) < 10:
            yield f"thread {number} got through {len(thread)} events only"
    limit_s = attack.worst * outcome.timeout_s
    slow = [row for thread in outcome.events for row in thread if row[2] > limit_s + SLACK_S]
    if slow:
        rpc, pod, seconds, _ = max(slow, key=lambda row: row[2])
        yield f"{len(slow)} events took longer than {limit_s:g} s, the worst {seconds:.2f} s: {rpc} of {pod}"
    strange = [
        row for thread in outcome.events for row in thread if row[3] and not any(t in row[3] for t in attack.refusals)
    ]
    if strange:
        rpc, pod, _, error = strange[0]
        yield f"{len(strange)} events failed that must not, the first {rpc} of {pod}: {error[:300]}"


def _plugins(outcome: Outcome) -> Iterator[str]:
    for label, why in outcome.ended.items():
        yield f"healthy plugin {label} lost its connection: {why}"
    passed = {(rpc, pod) for thread in outcome.events for rpc, pod, _, error in thread if not error}
    # An event that has waited two timeouts for its turn continues without the plugin, before events that still wait.
    overtook = {(rpc, pod) for rpc, pod in outcome.rest.get("overtook", ())}
    steady = passed - overtook
    order = None
    for label, rows in outcome.seen.items():
        calls = [(rpc, pod) for rpc, pod in rows]
        if len(calls) != len(set(calls)):
            yield f"healthy plugin {label} got an event twice"
        missing = passed - set(calls)
        if missing:
            yield f"healthy plugin {label} did not get {len(missing)} of {len(passed)} events, as {min(missing)}"
        common = [entry for entry in calls if entry in steady and entry[0] not in PASSING]
        if order is None:
            order = common
        elif not missing and common != order:
            yield f"healthy plugin {label} got the events in another order than the first one"
        yield from _out_of_turn(label, outcome, set(calls), calls)


def _out_of_turn(
    label: str, outcome: Outcome, names: set[tuple[str, str]], calls: list[tuple[str, str]]
) -> Iterator[str]:
    """The events of each thread are asked for one after the other, and must come so."""
    place = {entry: n for n, entry in enumerate(calls)}
    for thread in outcome.events:
        places = [place[rpc, pod] for rpc, pod, _, _ in thread if (rpc, pod) in names]
        if places != sorted(places):
            yield f"healthy plugin {label} got events of one thread out of order"


def _holdings(outcome: Outcome) -> Iterator[str]:
    before, limit, after = outcome.before, outcome.most, outcome.after
    if outcome.memory_mib > outcome.attack.memory_mib:
        yield f"memory grew by {outcome.memory_mib:.0f} MiB, at most {outcome.attack.memory_mib} are allowed"
    left_mib = (after["memory"] - before["memory"]) / 1024
    if left_mib > outcome.attack.after_mib:
        yield f"{left_mib:.0f} MiB of memory are not given back"
    for name, slack in MOST.items():
        if limit[name] > before[name] + slack:
            yield f"{limit[name] - before[name]} more {name} than before, at most {slack} are allowed"
    for name, slack in AFTER.items():
        # What was started for the events themselves is gone by then.
        if after[name] > before[name] + slack:
            names = f": {outcome.rest.get('threads')}" if name == "threads" else ""
            yield f"{after[name] - before[name]} {name} are left over{names}"


def _log(outcome: Outcome) -> Iterator[str]:
    attack, log = outcome.attack, outcome.log
    allowed = 100 + attack.log_lines * outcome.seconds
    if outcome.log_lines > allowed:
        yield f"{outcome.log_lines} lines were logged, at most {allowed:.0f} are allowed"
    if b"Traceback" in log:
        yield "there is a traceback in the log: " + log[log.index(b"Traceback") :][-400:].decode(errors="replace")
    lines = log.splitlines()
    long = max(lines, key=len, default=b"")
    if len(long) > LINE_BYTES:
        yield f"a line of the log has {len(long)} bytes: {long[:80]!r}"
    wrong = [line for line in log.split(b"\n")[:-1] if not LINE.match(line)]
    if wrong and b"Traceback" not in log:
        yield f"{len(wrong)} lines of the log are not from nri, for example {wrong[0][:100]!r}"
    raw = RAW.search(log.decode(errors="replace"))
    if raw is not None:
        yield f"the log holds the raw character {raw[0]!r}"
    raw = RAW.search(outcome.shown)
    if raw is not None:
        yield f"a terminal is shown the raw character {raw[0]!r}"
