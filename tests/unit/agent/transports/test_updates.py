"""Strategies' values for a container go to its runtime, and the outcome is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from nri.agent.hooks import MAKE_ROOM, Hook
from nri.agent.model import Changes, Container, Decision, Pod, Write
from nri.agent.model import writes as writes_of
from nri.agent.parts import Parts
from nri.agent.pods.nri import NriPods
from nri.agent.settings import AgentSettings
from nri.agent.transports import messages
from nri.agent.transports.hook_plugin import HookPlugin
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory
from nri.agent.transports.updates import RuntimeUpdates
from nri.api import messages as m
from nri.api.builders.update import Update
from nri.errors import ConnectionClosed, DeadlineExceeded
from nri.host import Outcome
from nri.stub.support.runtime_handle import RuntimeHandle
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support import agents
from tests.support.host_trees import v1

POD = agents.POD
QUOTA = "cpu.cfs_quota"


class Runtime:
    """A runtime that updates containers on request: it writes the values that it accepts to their cgroups."""

    name = "a runtime"
    connected = True

    def __init__(self, parts: Parts, folders: dict[str, str]) -> None:
        self._parts, self._folders = parts, folders
        self.updates: list[m.ContainerUpdate] = []
        self.refuses: set[str] = set()
        #: Knobs that it accepts and ignores.
        self.drops: set[str] = set()
        self.error: Exception | None = None
        self.before_update: Callable[[], object] = lambda: None

    def update(self, *updates: m.ContainerUpdate) -> Runtime:
        self.before_update()
        self._failed = [Update.of(update) for update in updates if update.container_id in self.refuses]
        self.updates += updates
        for entry in updates:
            if entry.container_id not in self.refuses and self.error is None:
                changes = Changes(messages.reported(entry.linux.resources)).without(self.drops)
                self._parts.executor.write(writes_of(self._folders[entry.container_id], changes))
        return self

    def result(self) -> list[Update]:
        if self.error is not None:
            raise self.error
        return self._failed

    def quotas(self) -> list[tuple[str, int]]:
        return [(update.container_id, update.linux.resources.cpu.quota.value) for update in self.updates]


class World:
    """A machine of files with containers `a` and `b`, and their runtime."""

    def __init__(self, folder: Path) -> None:
        self.folders = {name: f"{POD}/{name}" for name in ("a", "b")}
        self.root = v1(folder, POD, *self.folders.values())
        self.clock = agents.Clock()
        self.parts = agents.parts(self.root, clock=self.clock)
        self.held = RuntimeInventory()
        self.runtime = Runtime(self.parts, self.folders)
        for name, path in self.folders.items():
            context = Container(Pod("ns", "p", agents.UID), f"x://{name}", name, path)
            self.held.put(name, InventoryEntry("sandbox", context, created=True))
        self.updates = RuntimeUpdates(
            self.parts, self.held, "nri", lambda: cast(RuntimeHandle, self.runtime), self.clock
        )

    def entry(self, name: str) -> InventoryEntry:
        actual = self.held.container(name)
        assert actual is not None
        return actual

    def set(self, *values: tuple[str, int]) -> list[tuple[str, str, bool]]:
        """Have quotas of containers set; return outcome and reason of each, and whether the runtime has set it."""
        expected = [Write(self.folders.get(name, name), QUOTA, str(value), "why") for name, value in values]
        actual = self.updates.write(expected)
        return [(entry.result.outcome.value, entry.result.reason, entry.by_runtime) for entry in actual]

    def quota(self, name: str) -> str:
        return agents.text(self.root, "cpu,cpuacct", self.folders.get(name, name), "cpu.cfs_quota_us")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_values_of_containers_are_set_by_the_runtime_and_values_of_pods_by_the_executor(world: World) -> None:
    assert world.set(("a", 20_000), (POD, 50_000)) == [("applied", "", True), ("applied", "", False)]
    assert world.runtime.quotas() == [("a", 20_000)]
    assert (world.quota("a"), world.quota(POD)) == ("20000", "50000")


def test_known_values_are_not_sent_again_and_overwritten_values_are_repaired(world: World) -> None:
    world.set(("a", 20_000))
    assert world.set(("a", 20_000)) == [("unchanged", "", False)]
    world.parts.executor.write([Write(world.folders["a"], QUOTA, "70000")])
    assert world.set(("a", 20_000)) == [("applied", "", False)]
    assert world.runtime.quotas() == [("a", 20_000)]
    assert world.quota("a") == "20000"


def test_values_reported_by_the_runtime_are_not_sent(world: World) -> None:
    world.entry("a").reported = {QUOTA: 20_000}
    world.set(("a", 20_000), ("b", 20_000))
    assert world.runtime.quotas() == [("b", 20_000)]


def test_a_refusal_is_reported_and_the_value_is_written_to_its_file(world: World) -> None:
    world.runtime.refuses = {"a"}
    (refused, outcome) = world.set(("a", 20_000), ("b", 30_000))
    assert refused[0] == "applied" and not refused[2]
    assert refused[1] == ("the runtime refused the value, so the value was written to its file: the update failed")
    assert outcome == ("applied", "", True)
    assert (world.quota("a"), world.quota("b")) == ("20000", "30000")


def test_a_refused_value_is_sent_again_after_a_pause_or_when_it_changes(world: World) -> None:
    world.runtime.refuses = {"a"}
    world.set(("a", 20_000))
    world.runtime.refuses = set()
    world.set(("a", 20_000))
    assert len(world.runtime.updates) == 1
    world.set(("a", 30_000))
    assert world.runtime.quotas()[1:] == [("a", 30_000)]
    world.runtime.refuses = {"a"}
    world.set(("a", 40_000))
    world.runtime.refuses = set()
    world.clock.now += 61
    world.set()
    assert world.runtime.quotas()[3:] == [("a", 40_000)], "the runtime's view is made true, though nobody asks anew"


def test_a_value_accepted_but_not_set_by_the_runtime_is_written_and_reported(world: World) -> None:
    world.runtime.drops = {QUOTA}
    (row,) = world.set(("a", 20_000))
    assert row == (
        "applied",
        "the runtime accepted the update without setting the value, so the value was written to its file",
        False,
    )


@pytest.mark.parametrize(("error", "waits"), [(DeadlineExceeded("an answer"), True), (ConnectionClosed("gone"), False)])
def test_a_runtime_that_does_not_respond_is_not_called_for_a_while(world: World, error: Exception, waits: bool) -> None:
    world.runtime.error = error
    ((outcome, reason, _),) = world.set(("a", 20_000))
    assert outcome == "applied" and str(error) in reason
    world.runtime.error = None
    world.set(("b", 30_000))
    assert (("b", 30_000) in world.runtime.quotas()) is not waits
    assert world.quota("b") == "30000"
    world.clock.now += 61
    world.set()
    assert world.runtime.quotas()[-1][0] in ("a", "b")
    assert world.entry("b").reported[QUOTA] == 30_000


def test_without_a_connection_the_executor_writes_all_values(world: World) -> None:
    world.runtime.connected = False
    assert world.set(("a", 20_000)) == [("applied", "", False)]
    assert world.runtime.updates == []


def test_a_round_has_a_time_limit_and_the_remaining_values_follow(world: World) -> None:
    for number in range(40):
        name = f"c{number}"
        world.folders[name] = f"{POD}/{name}"
        context = Container(Pod("ns", "p", agents.UID), f"x://{name}", name, world.folders[name])
        world.held.put(name, InventoryEntry("sandbox", context, created=True))

    def slow() -> None:
        world.clock.now += 5

    world.runtime.before_update = slow
    rows = world.set(*((f"c{number}", 20_000) for number in range(40)))
    assert len(world.runtime.updates) == 32
    assert {reason.rpartition(": ")[2] for _, reason, _ in rows[32:]} == {"the round's time was up"}
    world.set()
    assert len(world.runtime.updates) == 40


@pytest.mark.parametrize(
    "write",
    [
        Write(f"{POD}/a", "cpu.bvt", "-1"),
        Write(f"{POD}/a", "io.read_bps", "", "", {"8:0": 1}),
        Write(f"{POD}/a", "oom_score_adj", "5"),
        Write(f"{POD}/a", "cpuset.cpus", ""),
        Write(f"{POD}/a", "cpu.cfs_quota", "much"),
        Write(f"{POD}/nobody", "cpu.cfs_quota", "20000"),
        Write(POD, "cpu.cfs_quota", "20000"),
    ],
    ids=lambda write: f"{write.folder[-6:]} {write.knob} {write.value}",
)
def test_values_without_an_update_field_are_written_by_the_executor(world: World, write: Write) -> None:
    (written,) = world.updates.write([write])
    assert not written.by_runtime
    assert world.runtime.updates == []


def test_without_another_source_of_requests_the_runtimes_view_is_not_overwritten(world: World) -> None:
    parts = replace(world.parts, pods=NriPods(AgentSettings(root=str(world.root.path))))
    world.updates = RuntimeUpdates(parts, world.held, "nri", lambda: cast(RuntimeHandle, world.runtime), world.clock)
    assert world.set(("a", 20_000)) == [("applied", "", False)]
    assert world.runtime.updates == []
    world.updates.write([Write(world.folders["a"], "cpuset.cpus", "0-1")])
    assert len(world.runtime.updates) == 1


def test_a_shrinking_pod_is_written_again_after_its_containers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = world.parts.executor
    real = executor.write

    def nested(expected: list[Write], **how: Any) -> list[Any]:
        """A kernel of cgroup v1: no pod may have less than its container."""
        actual = real(expected, **how)
        return [
            replace(result, outcome=Outcome.REFUSED, reason="Invalid argument")
            if write.folder == POD and world.quota("a") != "20000"
            else result
            for write, result in zip(expected, actual, strict=True)
        ]

    monkeypatch.setattr(type(executor), "write", lambda _self, expected, **how: nested(expected, **how))
    assert [row[0] for row in world.set((POD, 20_000), ("a", 20_000))] == ["unchanged", "applied"]


# -- what the kubelet asks for ----------------------------------------------------------------------------------------


def requested(**fields: int) -> m.LinuxResources:
    linux_resources = m.LinuxResources()
    for name, value in fields.items():
        getattr(linux_resources.cpu, name).value = value
    return linux_resources


def test_an_unchanged_request_keeps_a_strategys_value_and_a_new_request_replaces_it(
    world: World,
) -> None:
    known_entry = world.entry("a")
    known_entry.requested = {QUOTA: 10_000}
    world.set(("a", 20_000))
    assert world.updates.values_to_keep(known_entry, requested(shares=2, quota=0)) == Changes({QUOTA: 20_000})
    assert world.updates.values_to_keep(known_entry, requested(quota=10_000)) == Changes({QUOTA: 20_000})
    assert world.updates.values_to_keep(known_entry, requested(quota=15_000)) == Changes()
    assert known_entry.requested == {QUOTA: 15_000, "cpu.shares": 2}


def test_a_value_decided_by_a_hook_no_longer_belongs_to_a_strategy(world: World) -> None:
    world.set(("a", 20_000))
    world.entry("a").hand_over(Changes({QUOTA: 5000}))
    assert world.entry("a").decided == {}


def test_a_kubelets_request_gets_the_values_of_strategies_and_hooks(tmp_path: Path) -> None:
    created, _ = plugin(tmp_path, "web")
    pod = made_pod()
    with FakeRuntime() as runtime:
        runtime.add(created).run_pod_sandbox(pod)
        container = run(runtime, pod, "web").container
        created.updates.write([Write("kubepods/pod1/web", QUOTA, "20000")])
        assert inventory_entry(created, "web").reported == {QUOTA: 20_000}
        reply = runtime.update_container(pod, container, requested(shares=512))
        assert reply.resources.cpu.quota.value == 20_000
        assert runtime.update_container(pod, container, requested(quota=90_000)).resources.cpu.quota.value == 90_000


def test_values_of_strategies_survive_a_restart_of_the_runtime(tmp_path: Path) -> None:
    created, _ = plugin(tmp_path, "web")
    pod = made_pod()
    with FakeRuntime() as runtime:
        runtime.add(created).run_pod_sandbox(pod)
        run(runtime, pod, "web")
        created.updates.write([Write("kubepods/pod1/web", QUOTA, "20000")])
        runtime.restart()
        assert inventory_entry(created, "web").decided == {QUOTA: 20_000}


def inventory_entry(created: HookPlugin, name: str) -> InventoryEntry:
    actual = created.held.container(name)
    assert actual is not None
    return actual


# -- room for a container that is being created ------------------------------------------------------------------------


def shrink(context: Container, _rules: object) -> Decision:
    """Best-effort containers make room for one called `important`."""
    if context.new.name != "important" or context.name == "spared":
        return Decision()
    by_name = {"odd": {"cpuset.cpus": "no CPUs"}, "plain": {"cpu.bvt": -1}}
    knobs = by_name.get(context.name, {QUOTA: 5000, "cpu.bvt": -1})
    return Decision(Changes(knobs), f"room for {context.new.name}")


ROOM = Hook("Room", True, (), (), {MAKE_ROOM: shrink})


def plugin(folder: Path, *names: str) -> tuple[HookPlugin, Parts]:
    """A plugin of a profile with one more hook, on a machine with the cgroups of these containers."""
    parts = agents.parts(v1(folder, *(f"kubepods/pod1/{name}" for name in names)))
    profile = replace(parts.profile, name="test", hooks=(ROOM,))
    decisions = type(parts.decisions)(profile, parts.store, parts.executor, parts.history, parts.observer)
    parts = replace(parts, profile=profile, decisions=decisions)
    return HookPlugin(parts), parts


def made_pod() -> m.PodSandbox:
    pod = make_pod(name="p", uid="1")
    pod.linux.cgroup_parent = "/kubepods/pod1"
    return pod


def run(runtime: FakeRuntime, pod: m.PodSandbox, name: str) -> Any:
    """Create and start a container; return what its creation was answered."""
    container = make_container(name, pod=pod, id=name)
    container.linux.cgroups_path = f"/kubepods/pod1/{name}"
    reply = runtime.create_container(pod, container)
    runtime.post_create_container(pod, reply.container)
    runtime.start_container(pod, reply.container)
    return reply


def test_a_creation_is_answered_with_updates_of_containers_that_make_room(tmp_path: Path) -> None:
    created, parts = plugin(tmp_path, "batch", "spared", "odd", "plain", "important")
    pod = made_pod()
    with FakeRuntime() as runtime:
        runtime.add(created).run_pod_sandbox(pod)
        for name in ("batch", "spared", "odd", "plain"):
            assert run(runtime, pod, name).updates == {}
        updates = run(runtime, pod, "important").updates
    assert {name: update.message.linux.resources.cpu.quota.value for name, update in updates.items()} == {"batch": 5000}
    account = parts.history.account("1") or {}
    rows = {(row["container"], row["name"]): (row["outcome"], row["reason"]) for row in account["writes"]}
    assert rows["batch", QUOTA] == (
        "applied", "the runtime accepted the update without setting the value, so the value was written to its file",
    )  # fmt: skip
    assert rows["batch", "cpu.bvt"][0] in ("applied", "unsupported"), "NRI has no word for it"
    assert rows["plain", "cpu.bvt"][0] in ("applied", "unsupported")
    assert rows["odd", "cpuset.cpus"][0] == "refused"
    (why,) = [row for row in account["values"] if (row["container"], row["field"]) == ("batch", QUOTA)]
    assert (why["hook"], why["reason"], why["stage"]) == ("Room", "room for important", "MakeRoom")


def test_a_failed_creation_leaves_no_entry(tmp_path: Path) -> None:
    created, parts = plugin(tmp_path, "batch", "important")
    pod = made_pod()
    with FakeRuntime() as runtime:
        runtime.add(created).run_pod_sandbox(pod)
        run(runtime, pod, "batch")
        container = make_container("important", pod=pod, id="important")
        runtime.create_container(pod, container)
        runtime.remove_container(pod, container)
        created.updates.created("important")
    assert QUOTA not in {row["name"] for row in (parts.history.account("1") or {})["writes"]}


def test_hooks_that_make_room_have_a_part_of_the_runtimes_timeout(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = replace(world.parts.profile, hooks=(ROOM,))
    updates = RuntimeUpdates(
        replace(world.parts, profile=profile), world.held, "nri", lambda: cast(RuntimeHandle, world.runtime)
    )
    new = Container(name="important")
    assert updates.room("c", new, -1.0) == []
    assert world.entry("a").decided == {}
