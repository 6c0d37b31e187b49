"""Joining plugins and errors of the runtime."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation import Adaptation
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.errors import LocalProtocolError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin, change, register, request, response
from tests.support.waiting import wait_for


class Quiet(nri.Plugin):
    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.seen = len(containers)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


def test_a_failing_snapshot_refuses_the_plugin_and_the_runtime_continues(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Any:
        raise OSError("state file is gone")

    with monkeypatch.context() as patch:
        patch.setattr(parts_of(nri_runtime.adaptation).handshake.admission, "snapshot", fail)
        raw = RawPlugin(nri_runtime)
        raw.sock.sendall(register())
        raw.wait_for(b"Configure")
        raw.sock.sendall(response(1, m.ConfigureResponse(events=1)))
        assert raw.ended()
        raw.close()
    assert (
        "the runtime failed to list its pods and containers: OSError: state file is gone"
        in nri_runtime.health("10-raw").last_error
    )
    assert parts_of(nri_runtime.adaptation).trail.inventory.news == []
    nri_runtime.start_container()
    nri_runtime.add(Quiet())


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (None, "NoneType"),
        ([], "0 values"),
        ({}, "dict"),
        (([], 5), "int for a list"),
        (([make_pod()], ["c1"]), "str for a Container"),
        (([make_container()], []), "Container for a PodSandbox"),
        (({"p": make_pod()}, {}), "str for a PodSandbox"),
    ],
)
def test_a_wrong_return_value_of_the_synchronize_callback_is_an_error_with_advice(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, state: Any, what: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(parts_of(nri_runtime.adaptation).handshake.admission, "snapshot", lambda: state)
        with pytest.raises(LocalProtocolError) as caught:
            nri_runtime.add(Quiet())
    expected = f"the runtime's synchronize callback returned {what}: it must return (pods, containers)"
    assert expected in str(caught.value)
    (messages,) = [record for record in caplog.records if expected in record.getMessage()]
    assert not messages.exc_info, "a traceback of our own code does not help the runtime's author"
    nri_runtime.add(Quiet())


def test_a_hanging_synchronize_does_not_block_events() -> None:
    """The runtime's callback waits for a lock that the caller of an event holds: a bug, but no reason to stop."""
    import socket
    import threading

    from nri.stub.session.session import Session

    lock = threading.Lock()

    def snapshot() -> tuple[list[m.PodSandbox], list[m.Container]]:
        with lock:
            return [], []

    adaptation = Adaptation(
        "test", "1", synchronize=snapshot, update=lambda _: None, disable_connections=True,
        plugin_path="/nonexistent", policy_path=None, request_timeout_s=0.2,
    )  # fmt: skip
    with adaptation:
        adaptation.set_request_timeout(20)  # of the plugin; how long an event waits for a joiner is as it was
        local, remote = socket.socketpair()
        session = Session(Quiet(), remote, index="10")
        thread = threading.Thread(target=session.run)
        with lock:
            thread.start()
            adaptation.connect(local)
            wait_for(lambda: parts_of(adaptation).chain.gate.inside, "the plugin is joining")
            began = time.monotonic()
            adaptation.start_container(make_pod(), make_container())
            assert time.monotonic() - began < 10
        assert adaptation.ready(["10-quiet"], 20)
        session.stop()
        thread.join()


def test_a_policy_changed_during_the_handshake_applies_to_the_plugin() -> None:
    with FakeRuntime(policy="") as runtime:
        adaptation = runtime.adaptation
        generation = parts_of(adaptation).housekeeping.generation
        with adaptation.block_sync():
            runtime.add(Quiet(), wait=False)
            wait_for(lambda: parts_of(adaptation).chain.gate.waiting, "the plugin waits to join")
            change(Path(str(parts_of(adaptation).policies.path)), '["10-quiet"]\nallow = { events = [] }\n')
            wait_for(lambda: parts_of(adaptation).housekeeping.generation != generation, "the policy was read again")
        assert adaptation.ready(["10-quiet"], 20)
        peer = parts_of(adaptation).registry.find("10-quiet")
        assert peer is not None
        assert not any(peer.event_policies), "it is still sent events that it is not allowed to see"


def test_a_plugin_that_dies_during_the_handshake_stops_waiting(nri_runtime: FakeRuntime) -> None:
    gate = parts_of(nri_runtime.adaptation).chain.gate
    with nri_runtime.adaptation.block_sync():
        raw = RawPlugin(nri_runtime)
        raw.sock.sendall(register())
        raw.wait_for(b"Configure")
        raw.sock.sendall(response(1, m.ConfigureResponse(events=1)))
        wait_for(lambda: gate.waiting, "the plugin waits to join")
        raw.close()
        wait_for(lambda: not gate.waiting, "nobody waits for a plugin that is gone")


@pytest.mark.parametrize("compat", ["default", "reference"])
def test_with_one_timeout_per_state_joining_plugins_do_not_share_it(compat: Any) -> None:
    """Four slow plugins join: concurrently all would be late; one after the other, all are in time."""
    inside: list[int] = []
    limit: list[int] = []
    lock, met = threading.Lock(), threading.Event()

    class Thorough(nri.Plugin):
        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
            with lock:
                inside.append(1)
                limit.append(len(inside))
                if len(inside) > 1:
                    met.set()
            met.wait(0.05 if compat == "reference" else 20)
            with lock:
                inside.pop()

    with FakeRuntime(compat=compat) as runtime:
        waiting = parts_of(runtime.adaptation).handshake.admission.waiting
        with runtime.adaptation.block_sync():
            for number in range(4):
                runtime.add(Thorough(), idx=f"{number:02}", wait=False)
            wait_for(lambda: len(waiting) == 4, "all four wait to join")
        labels = [f"{number:02}-thorough" for number in range(4)]
        assert runtime.adaptation.ready(labels, 20), "all four take part"
    assert (max(limit) == 1) is (compat == "reference"), f"number of plugins synchronized at the same time: {limit}"


def test_a_request_of_a_plugin_right_after_the_state_is_applied() -> None:
    """It has not yet answered Synchronize, but the containers of the state are known."""
    with FakeRuntime(pods=[make_pod(id="p")], containers=[make_container(id="there", pod_sandbox_id="p")]) as runtime:
        raw = RawPlugin(runtime)
        raw.sock.sendall(register())
        raw.wait_for(b"Configure")
        raw.sock.sendall(response(1, m.ConfigureResponse(events=0x3FFF)))
        raw.wait_for(b"there")
        update = m.ContainerUpdate(container_id="there")
        update.linux.resources.cpu.shares.value = 512
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(update=[update]), 3))
        wait_for(lambda: runtime.updates, "the update is applied")
        raw.sock.sendall(response(3))
        assert runtime.adaptation.ready([raw.label], 20)
        raw.close()
    assert [entry.container_id for entry in runtime.updates] == ["there"]


class Greedy(Quiet):
    """Requests an update of each container at once."""

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> list[nri.Update]:
        return [nri.Update(container.id).set_cpu_shares(512) for container in containers]


def test_a_plugin_has_settled_after_its_synchronize_updates_are_applied() -> None:
    with FakeRuntime(pods=[make_pod(id="p")], containers=[make_container(id="there", pod_sandbox_id="p")]) as runtime:
        adaptation, at_it, go_on = runtime.adaptation, threading.Event(), threading.Event()
        apply = parts_of(adaptation).handshake.updates.apply_synchronize

        def held_up(*arguments: Any) -> None:
            at_it.set()
            assert go_on.wait(20)
            apply(*arguments)

        parts_of(adaptation).handshake.updates.apply_synchronize = held_up  # type: ignore[method-assign]
        runtime.add(Greedy(), wait=False)
        assert at_it.wait(20)
        assert adaptation.ready(["10-greedy"])
        assert not adaptation.ready(["10-greedy"], settled=True)
        go_on.set()
        assert adaptation.ready(["10-greedy"], 20, settled=True)
        assert [update.container_id for update in runtime.updates] == ["there"]


@pytest.mark.parametrize("later", [False, True], ids=["the newest", "overtaken"])
def test_an_answer_to_synchronize_has_its_place_in_the_order_of_all_answers(later: bool) -> None:
    """It overrides an earlier answer, but not one that came while it was being applied."""
    container = make_container(id="there", pod_sandbox_id="p")
    with FakeRuntime(pods=[make_pod(id="p")], containers=[container]) as runtime:
        runtime.add(Allocator(), "20")
        runtime.update_container(resources=nri.Update("there").set_cpu_shares(300))
        apply = parts_of(runtime.adaptation).handshake.updates.apply_synchronize

        def overtaken(*arguments: Any) -> None:
            if later:
                runtime.update_container(resources=nri.Update("there").set_cpu_shares(300))
            apply(*arguments)

        parts_of(runtime.adaptation).handshake.updates.apply_synchronize = overtaken  # type: ignore[method-assign]
        runtime.add(Greedy())
        assert container.linux.resources.cpu.shares.value == (700 if later else 512)


class Allocator(Quiet):
    """Answers each update with its own."""

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: m.LinuxResources
    ) -> list[nri.Update]:
        return [nri.Update(container.id).set_cpu_shares(700)]


def test_adding_a_plugin_to_the_fake_runtime_waits_for_its_synchronize_updates() -> None:
    with FakeRuntime(pods=[make_pod(id="p")], containers=[make_container(id="there", pod_sandbox_id="p")]) as runtime:
        apply = parts_of(runtime.adaptation).handshake.updates.apply_synchronize

        def slow(*arguments: Any) -> None:
            time.sleep(0.1)
            apply(*arguments)

        parts_of(runtime.adaptation).handshake.updates.apply_synchronize = slow  # type: ignore[method-assign]
        assert [update.cpu_shares for update in runtime.add(Greedy()).updates] == [512]
