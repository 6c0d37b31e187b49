"""Plugins that do not answer, answer late, do not read, or do both at once with others."""

from __future__ import annotations

import socket
import time
from functools import partial

from nri.api import messages as m
from nri.api.events import ALL, EventMask
from nri.ttrpc.envelope import Request, encode_response
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Answer, Raw, Target

#: An event that does not come: who subscribes to it alone is in nobody's way.
UNUSED = EventMask.of("UpdatePodSandbox")
URGENT = ("StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox")


def silent(target: Target) -> None:
    with target.connect() as plugin:
        plugin.join().serve(target, lambda request: None)


def silent_with_a_policy(target: Target) -> None:
    """It has declared that requests fail without its answer."""
    with target.connect() as plugin:
        plugin.join(policy=m.FailurePolicy(fail_request=True, keep_connected=True)).serve(target, lambda request: None)


def stop_and_remove_pass(outcome: Outcome) -> None:
    """While the breaker is open, and always: a node must get rid of its pods."""
    failed = [row for thread in outcome.events for row in thread if row[3] and row[0] in URGENT]
    assert not failed, f"{len(failed)} Stop and Remove requests failed, the first: {failed[0][3]}"
    last = [thread[-20:] for thread in outcome.events]
    assert any(not row[3] for rows in last for row in rows if row[0] == "RunPodSandbox"), (
        "a plugin that only declared fail_request still blocks RunPodSandbox while it is left out"
    )


def late(target: Target) -> None:
    """Answers everything, half a timeout too late."""
    with target.connect() as plugin:

        def answer(request: Request) -> Answer:
            time.sleep(1.5 * target.timeout_s)
            return b""

        plugin.join().serve(target, answer)


def half_a_message(target: Target) -> None:
    """Begins an answer and never ends it."""

    def answer(request: Request) -> Answer:
        complete = encode_response(bytes(2000), 0, "")
        return Raw(
            b"\x00\x00\x00\x01" + (len(complete) + 10).to_bytes(4, "big") + len(complete).to_bytes(4, "big")
            + request.stream_id.to_bytes(4, "big") + b"\x02\x00" + complete[:100], trunk=True,
        )  # fmt: skip

    with target.connect() as plugin:
        plugin.join().serve(target, answer)


def reads_nothing(target: Target) -> None:
    """Joins with a small buffer, and reads nothing more."""
    with target.connect() as plugin:
        plugin.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        plugin.join()
        target.count["joined"] += 1
        target.sleep(target.seconds)


def asks_and_does_not_read(target: Target, idx: str, payload: bytes = b"") -> None:
    """Asks until nothing more can be written, never reads an answer, and holds the connection."""
    with target.connect("hostile", idx, events=UNUSED) as plugin:
        plugin.join()
        plugin.sock.settimeout(0.1)
        while not target.over:
            target.count["asked"] += 1
            try:
                plugin.sock.sendall(plugin.request_bytes("UpdateContainers", payload))
            except TimeoutError:
                continue  # the rest of a request is lost: so much the worse for who reads it


def four_ask_and_do_not_read(target: Target) -> None:
    """Each a writer; beside them one plugin whose updates must still be applied."""
    request = m.UpdateContainersRequest(update=[m.ContainerUpdate(container_id=f"nobody-{n}") for n in range(200)])
    payload = request.SerializeToString()
    target.together(
        partial(_polite, target), *(partial(asks_and_does_not_read, target, f"6{n}", payload) for n in range(4))
    )


def _polite(target: Target) -> None:
    request = m.UpdateContainersRequest(update=[m.ContainerUpdate(container_id="standing-2")])
    with target.connect("polite", "70", events=UNUSED) as plugin:
        plugin.join()
        while not target.over:
            start_s = time.monotonic()
            plugin.ask("UpdateContainers", request)
            plugin.reply()
            target.count["polite"] += 1
            target.count["polite-ms"] = max(target.count["polite-ms"], int((time.monotonic() - start_s) * 1000))
            target.sleep(0.02)


def others_updates_pass(outcome: Outcome) -> None:
    """The polite plugin asks again as soon as it is answered. How often that is depends on the machine; no wait may."""
    assert outcome.count.get("polite"), "a polite plugin got no answer"
    waited_s = outcome.count["polite-ms"] / 1000
    assert waited_s < outcome.timeout_s, f"a polite plugin waited {waited_s} s for an answer"


def validator_that_hangs(target: Target) -> None:
    """Answers all events; does not answer as a validator."""
    with target.connect(events=ALL) as plugin:
        plugin.join().serve(target, lambda entry: None if entry.method == "ValidateContainerAdjustment" else b"")


HANGS = '["20-hostile"]\nbreaker = { misses = 2, retry = "1s" }\n'
ROWS = (
    Attack(
        "silent",
        "takes every event and never answers",
        "each event waits one and a half timeouts at most, until the breaker leaves the plugin out",
        silent,
    ),
    Attack(
        "silent-fail-request",
        "the same, and it has declared `fail_request`",
        "requests fail until the breaker leaves it out; Stop and Remove always pass",
        silent_with_a_policy,
        ("20-hostile",),
        fails=False,  # the two requests that open the breaker may be Stop or Remove, which pass
        node={"policy": HANGS, "timeout_s": 0.5},
        check=stop_and_remove_pass,
    ),
    Attack(
        "late",
        "answers everything after one and a half timeouts",
        "each answer is dropped; the breaker leaves it out",
        late,
        short=False,
    ),
    Attack(
        "half-a-message",
        "begins each answer and never ends it",
        "as one that is silent",
        half_a_message,
        short=False,
    ),
    Attack(
        "reads-nothing",
        "joins, and reads nothing more",
        "as one that is silent",
        reads_nothing,
        short=False,
    ),
    Attack(
        "asks-and-does-not-read",
        "four plugins ask for updates without end and never read an answer",
        "they are refused, and cost no other plugin's updates",
        four_ask_and_do_not_read,
        check=others_updates_pass,
        memory_mib=192,
    ),
    Attack(
        "validator-hangs",
        "answers every event, but never as a validator",
        "creations are refused in its name, until and while it is left out",
        validator_that_hangs,
        ("20-hostile",),
    ),
)
