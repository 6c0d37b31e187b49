"""The state of Synchronize, assembled from its parts."""

from __future__ import annotations

import copy
import operator
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.stub.session import synchronize
from nri.stub.session.synchronize import MORE_REPLY, Parts
from nri.ttrpc import Code
from nri.wire import bytes_field
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CONTAINER, POD


def test_synchronize_receives_the_whole_state_and_returns_updates() -> None:
    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers):
            return [nri.Update(c).set_cpu_shares(7) for c in containers]

        def run_pod_sandbox(self, pod): ...

    with plugin_thread(Syncs()) as running:
        running.runtime.register()
        running.runtime.configure()
        response = running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
        reply = m.SynchronizeResponse.FromString(response.payload)
        assert [(u.container_id, u.linux.resources.cpu.shares.value) for u in reply.update] == [("c0", 7)]


def part(pods: int = 0, containers: int = 0, *, more: bool) -> bytes:
    return m.SynchronizeRequest(pods=[POD] * pods, containers=[CONTAINER] * containers, more=more).SerializeToString()


@pytest.mark.parametrize("keep", [True, False])
def test_a_part_reports_whether_more_parts_follow(keep: bool) -> None:
    parts = Parts()
    assert parts.add(part(more=True), keep=keep)
    assert not parts.add(part(more=False), keep=keep)


def test_parts_are_assembled_into_one_state() -> None:
    parts = Parts()
    parts.add(part(containers=2, more=True), keep=True)
    parts.add(part(pods=1, containers=1, more=False), keep=True)
    pods, containers = parts.take()
    assert (len(pods), len(containers)) == (1, 3)
    assert parts.take() == ([], [])


def test_a_state_above_the_limit_is_refused_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "MAX_STATE_BYTES", 100)
    parts = Parts()
    for _ in range(100 // len(part(containers=1, more=True))):
        assert parts.add(part(containers=1, more=True), keep=True)
    with pytest.raises(nri.RpcError, match="the state to synchronize is over 100 bytes") as refused:
        parts.add(part(containers=1, more=True), keep=True)
    assert refused.value.code == Code.RESOURCE_EXHAUSTED
    assert parts.take() == ([], [])
    assert not parts.add(part(containers=1, more=False), keep=True), "the refused parts still count"


def test_the_limit_applies_to_each_synchronization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "MAX_STATE_BYTES", 100)
    parts = Parts()
    for _ in range(20):
        assert not parts.add(part(containers=1, more=False), keep=False)


def test_the_reply_to_a_part_equals_the_protocols() -> None:
    assert m.SynchronizeResponse(more=True).SerializeToString() == MORE_REPLY


def empties(number: int, times: int) -> bytes:
    """A container with `times` empty items of a field, and `more`."""
    return bytes_field(2, bytes((number << 3 | 2, 0)) * times) + b"\x18\x01"


def test_the_number_of_objects_is_checked_before_they_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "MAX_STATE_OBJECTS", 100)
    parts, before = Parts(), synchronize.resident_bytes()
    assert parts.add(part(pods=50, containers=50, more=True), keep=True), "`more` does not count as an object"
    with pytest.raises(nri.RpcError, match="the state to synchronize has over 100 pods and containers") as refused:
        parts.add(b"\x12\x00" * (2 << 20), keep=True)
    assert refused.value.code == Code.RESOURCE_EXHAUSTED
    assert synchronize.resident_bytes() - before < 64 << 20, "it was parsed"
    assert parts.take() == ([], [])
    assert not parts.add(part(containers=1, more=False), keep=True)


#: Runs in a separate process: a process that has run other tests has free memory, and needs no more for a message.
EMPTIES = """
import sys
from nri.stub.session import synchronize
synchronize.SPARE_MEMORY = 0
parts = synchronize.Parts()
try:
    parts.add(bytes.fromhex(sys.stdin.read()), keep=True)
    parts.take()[1][0]
except synchronize.StateTooLarge as error:
    print(parts.take(), error)
"""


@pytest.mark.parametrize("more", [True, False])
def test_a_state_is_bounded_by_the_memory_of_its_objects(more: bool) -> None:
    """Empty objects use many times their encoded size."""
    payload = empties(m.Container.DESCRIPTOR.fields_by_name["mounts"].number, 1 << 20)
    argv = [sys.executable, "-c", EMPTIES]
    text = (payload if more else payload[:-2]).hex()
    output = subprocess.run(argv, input=text, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.startswith("([], []) rpc error: code = ResourceExhausted desc = the state to synchronize takes over ")


def test_a_state_is_bounded_by_its_total_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "MAX_STATE_MEMORY", 32 << 20)
    parts, before = Parts(), synchronize.resident_bytes()
    container = m.Container(id="c", env=[f"{n}=1234567890" for n in range(40_000)])
    payload = m.SynchronizeRequest(containers=[container], more=True).SerializeToString()
    for _ in range(100):
        parts.add(payload, keep=True)
    _, containers = parts.take()
    for _ in range(2):
        with pytest.raises(nri.RpcError, match="the state to synchronize takes over 33554432 bytes of memory"):
            containers.sort(key=str)
    assert synchronize.resident_bytes() - before < 128 << 20
    assert not parts.add(part(containers=1, more=False), keep=True), "the refused parts still count"


def test_other_memory_of_the_plugin_does_not_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "SPARE_MEMORY", 16 << 20)
    parts = Parts()
    assert parts.add(part(containers=1, more=True), keep=True)
    assert not parts.add(part(containers=1, more=False), keep=True)
    _, containers = parts.take()
    used = b"x" * (64 << 20)
    assert list(containers) == [CONTAINER] * 2
    assert len(used) == 64 << 20


def test_without_a_synchronize_handler_only_bytes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronize, "MAX_STATE_OBJECTS", 1)
    assert Parts().add(part(containers=5, more=True), keep=False)


#: What can be done with a list, other than to ask for its length.
USES: dict[str, Callable[[Any], Any]] = {
    "iterated": list,
    "unpacked": lambda these: [*these],
    "made a tuple": tuple,
    "indexed": lambda these: these[-1],
    "sliced": lambda these: these[1:],
    "reversed": lambda these: [*reversed(these)],
    "sorted": lambda these: sorted(these, key=lambda entry: entry.id),
    "sorted in place": lambda these: these.sort(key=lambda entry: entry.id, reverse=True),
    "searched": lambda these: (CONTAINER in these, these.index(CONTAINER), these.count(CONTAINER)),
    "added to": lambda these: operator.add(these, [POD]),
    "added": lambda these: operator.add([POD], these),
    "added in place": lambda these: these.__iadd__([POD]),
    "added to a list in place": lambda these: operator.iadd(target := [POD], these) is target and target,
    "extending a message": lambda these: m.SynchronizeRequest(containers=these),
    "multiplied": lambda these: these * 2,
    "appended to": lambda these: these.append(POD),
    "inserted into": lambda these: these.insert(0, POD),
    "taken from": lambda these: (these.pop(), these.pop(0)),
    "removed from": lambda these: these.remove(CONTAINER),
    "cut": lambda these: these.__delitem__(slice(1, None)),
    "replaced": lambda these: these.__setitem__(0, POD),
    "cleared": lambda these: these.clear(),
    "copied": lambda these: (these.copy(), copy.copy(these), copy.deepcopy(these)),
    "pickled": lambda these: pickle.loads(pickle.dumps(these)),
    "printed": lambda these: (str(these), f"{these}"),
    "compared": lambda these: (these == [], operator.eq([CONTAINER] * 3, these), these != [CONTAINER] * 3),
}


@pytest.mark.parametrize("use", USES)
def test_the_lists_of_the_state_behave_like_lists(use: str) -> None:
    parts = Parts()
    parts.add(part(pods=1, containers=1, more=True), keep=True)
    parts.add(part(containers=2, more=False), keep=True)
    pods, containers = parts.take()
    plain = [CONTAINER] * 3
    assert isinstance(containers, list)
    assert (len(pods), len(containers), bool(containers)) == (1, 3, True)
    assert USES[use](containers) == USES[use](plain)
    assert (containers, len(containers), pods) == (plain, len(plain), [POD])


@pytest.mark.parametrize("use", [operator.add, operator.iadd, operator.eq, operator.ne])
def test_lists_of_two_synchronizations_can_be_added(use: Callable[[Any, Any], Any]) -> None:
    lists = []
    for _ in range(2):
        parts = Parts()
        parts.add(part(pods=2, more=False), keep=True)
        lists.append(parts.take()[0])
    assert use(*lists) == use([POD] * 2, [POD] * 2)


def test_messages_are_decoded_on_first_access_and_then_kept() -> None:
    broken = bytes_field(2, b"\x0a\x7f")
    parts = Parts()
    assert not parts.add(part(pods=1, more=False) + broken, keep=True)
    pods, containers = parts.take()
    assert (len(pods), len(containers)) == (1, 1), "the lengths come from the frames, without a parse"
    for _ in range(2):
        with pytest.raises(nri.RpcError, match="error unmarshalling payload") as refused:
            pods[0]
        assert refused.value.code == Code.INTERNAL
    assert not parts.add(part(pods=1, more=False), keep=True)
    pods, _ = parts.take()
    assert pods[0] is pods[0]


def test_parts_decoded_on_arrival_are_the_same_state() -> None:
    parts = Parts()
    for more in (True, True, False):
        assert parts.add(part(pods=1, containers=2, more=more), keep=True) == more
        parts.read()
    pods, containers = parts.take()
    assert (len(pods), len(containers)) == (3, 6)
    assert (pods, containers) == ([POD] * 3, [CONTAINER] * 6)


def test_an_undecodable_part_is_dropped_alone() -> None:
    parts = Parts()
    parts.add(part(pods=1, more=True), keep=True)
    parts.add(bytes_field(2, b"\x0a\x7f"), keep=True)
    with pytest.raises(nri.RpcError, match="error unmarshalling payload"):
        parts.read()
    assert not parts.add(part(containers=1, more=False), keep=True)
    assert parts.take() == ([POD], [CONTAINER])


@pytest.mark.parametrize("mirror", [False, True])
def test_an_undecodable_part_is_an_error_at_once_if_the_state_is_used(mirror: bool) -> None:
    class Syncs(nri.Plugin):
        def run_pod_sandbox(self, pod): ...

    class Chooses(Syncs):
        @nri.when(namespaces="prod")
        def synchronize(self, pods, containers): ...

    class Mirrors(Syncs):
        mirror = True

    with plugin_thread(Mirrors() if mirror else Chooses()) as running:
        running.runtime.register()
        running.runtime.configure()
        payload = bytes_field(2, b"\x0a\x7f") + b"\x18\x01"
        assert running.runtime.call("Synchronize", payload).code == Code.INTERNAL
        assert not running.runtime.call("Synchronize", m.SynchronizeRequest(containers=[CONTAINER])).code


def test_threads_of_a_handler_share_one_list() -> None:
    parts = Parts()
    parts.add(part(containers=2000, more=False), keep=True)
    _, containers = parts.take()
    gate, observed = threading.Barrier(4), []

    def look() -> None:
        gate.wait()
        observed.append([id(container) for container in containers])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(observed) == 4
    assert all(container == observed[0] and len(container) == 2000 for container in observed)


def test_a_truncated_message_leaves_no_state() -> None:
    lengths: list[tuple[int, int]] = []

    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers):
            lengths.append((len(pods), len(containers)))

        def run_pod_sandbox(self, pod): ...

    with plugin_thread(Syncs()) as running:
        running.runtime.register()
        running.runtime.configure()
        assert running.runtime.call("Synchronize", part(pods=3, containers=1, more=False)[:-1]).code == Code.INTERNAL
        assert not running.runtime.call("Synchronize", part(pods=1, containers=1, more=False)).code
    assert lengths == [(1, 1)]


@pytest.mark.parametrize("looks", [False, True])
def test_an_undecodable_object_is_an_error_of_the_runtime(looks: bool) -> None:
    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers):
            return [nri.Update(c) for c in containers] if looks else None

        def run_pod_sandbox(self, pod): ...

    with plugin_thread(Syncs()) as running:
        running.runtime.register()
        running.runtime.configure()
        assert running.runtime.call("Synchronize", bytes_field(2, b"\x0a\x7f")).code == (Code.INTERNAL if looks else 0)
        assert not running.runtime.call("Synchronize", m.SynchronizeRequest(containers=[CONTAINER])).code
