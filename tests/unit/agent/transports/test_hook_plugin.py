"""The agent's plugin over the wire: the effect of each event on a pod, and of a pod's mistakes."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import cpuset
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.agent.parts import Parts
from nri.agent.transports import hook_plugin
from nri.agent.transports.hook_plugin import EVENTS, HookPlugin
from nri.api import messages as m
from nri.api.events import EventMask
from nri.errors import ConfigError, NriError
from nri.host import Root
from nri.testing import FakeRuntime
from tests.support import agents
from tests.support.hook_modes import CASES, CONTAINER_ID, MAIN, SANDBOX_ID, UID, Case, Pod
from tests.support.host_trees import v1, v2, write_files

BATCH = next(case for case in CASES if case.hook == "BatchResource")
SHARED = next(case for case in CASES if case.title == "share pools")
CLEAR = next(case for case in CASES if case.title == "clear")
FAST = next(case for case in CASES if case.hook == "CPUNormalization")
BAD = Pod(n.LSR, paths.GUARANTEED, annotations={cpuset.ANNOTATION_STATUS: '{"cpuset": 7}'})


def machine(folder: Path, pod: Pod, *, pod_folder: bool = True) -> Root:
    """A machine of files with the pod's cgroups; without `pod_folder` they are still to be made."""
    return v1(folder, *((pod.folder, f"{pod.folder}/{CONTAINER_ID}") if pod_folder else ()))


def make_parts(folder: Path, case: Case, *, fail: bool = False, pod: Pod | None = None) -> tuple[HookPlugin, Parts]:
    """The plugin under the rules of a case."""
    root = machine(folder, pod or case.pod)
    base = case.base()
    node = Node(gates=base.gates, fail=fail)
    parts = agents.parts(root, node=node, rules=case.documents)
    return HookPlugin(parts, fail=fail), parts


def writes(parts: Parts) -> dict[str, dict[str, Any]]:
    """What came of the pod's writes, by the knob."""
    return {write["name"]: write for write in (parts.history.account(UID) or {}).get("writes", [])}


# -- the failure policy -----------------------------------------------------------------------------------------------


def test_a_bad_annotation_is_ignored_by_default(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, SHARED, pod=BAD)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.run_pod_sandbox(BAD.messages()[0])
        reply = runtime.create_container(*BAD.messages())
    assert reply.resources.cpu.cpus == ""
    account = parts.history.account(UID)
    assert account is not None and {error["hook"] for error in account["errors"]} == {"CPUSetAllocator"}


@pytest.mark.parametrize("event", ["run", "create", "update"])
def test_the_failure_policy_fail_refuses_the_request_with_the_name_of_the_hook(tmp_path: Path, event: str) -> None:
    plugin, _ = make_parts(tmp_path, SHARED, fail=True, pod=BAD)
    pod, container = BAD.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        requests = {
            "run": lambda: runtime.run_pod_sandbox(pod),
            "create": lambda: runtime.create_container(pod, container),
            "update": lambda: runtime.update_container(pod, container, m.LinuxResources()),
        }
        with pytest.raises(NriError, match=r"CPUSetAllocator: annotation scheduling\.koordinator\.sh/resource-status"):
            requests[event]()


def test_the_failure_policy_fail_also_applies_to_a_late_response(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, SHARED, fail=True)
    with FakeRuntime(version="v1.0.0") as runtime:
        runtime.add(plugin)
        assert plugin.failure_policy is not None
        assert (plugin.failure_policy.fail_request, plugin.failure_policy.keep_connected) == (True, True)


def test_a_pod_is_removed_even_if_its_hooks_fail(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, SHARED, fail=True, pod=BAD)
    with FakeRuntime() as runtime:
        runtime.add(plugin).remove_pod_sandbox(BAD.messages()[0])
    assert plugin.held.pods() == []


# -- conversions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail", [False, True])
def test_a_failed_conversion_never_fails_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fail: bool
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("out of range")

    monkeypatch.setattr(hook_plugin.translation, "adjustment", broken)
    monkeypatch.setattr(hook_plugin.translation, "update", broken)
    plugin, parts = make_parts(tmp_path, BATCH, fail=fail)
    pod, container = BATCH.pod.messages()
    with caplog.at_level(logging.ERROR), FakeRuntime() as runtime:
        runtime.add(plugin)
        assert not runtime.create_container(pod, container).owners.owners
        updated = runtime.update_container(pod, container, m.LinuxResources())
    assert not updated.changed
    assert writes(parts)["all values"]["reason"] == "the decision cannot be converted to a message: out of range"


@pytest.mark.parametrize(
    "cpus", ["abc", "3-1", "0-70000", "0," * 40_000, ","], ids=["word", "back", "far", "long", "none"]
)
def test_invalid_cpus_are_left_out(tmp_path: Path, cpus: str) -> None:
    pod = Pod(n.LSR, paths.GUARANTEED, annotations={cpuset.ANNOTATION_STATUS: json.dumps({"cpuset": cpus})})
    plugin, parts = make_parts(tmp_path, SHARED, pod=pod)
    with FakeRuntime() as runtime:
        reply = runtime.add(plugin).create_container(*pod.messages())
    assert reply.resources.cpu.cpus == ""
    assert reply.resources.cpu.quota.value == -1, "what else was decided counts"
    assert writes(parts)["cpuset.cpus"]["outcome"] == "refused"


# -- pods -------------------------------------------------------------------------------------------------------------


def test_values_of_a_pod_without_a_cgroup_are_written_at_its_first_container(tmp_path: Path) -> None:
    root = v1(tmp_path)
    parts = agents.parts(root, node=BATCH.base())
    plugin = HookPlugin(parts)
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(pod)
        assert {write["outcome"] for write in writes(parts).values()} == {"gone"}
        machine(tmp_path, BATCH.pod)
        runtime.create_container(pod, container)
    assert agents.text(root, "cpu,cpuacct", BATCH.pod.folder, "cpu.shares") == "512"
    assert writes(parts)["cpu.shares"]["outcome"] == "applied"


def test_a_pod_of_systemd_is_found_by_its_slice_name(tmp_path: Path) -> None:
    uid = UID.replace("-", "_")
    folder = f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid}.slice"
    root = v1(tmp_path, folder)
    parts = agents.parts(root, node=BATCH.base())
    pod, _ = BATCH.pod.messages()
    pod.linux.cgroup_parent = f"kubepods-besteffort-pod{uid}.slice"
    with FakeRuntime() as runtime:
        runtime.add(HookPlugin(parts)).run_pod_sandbox(pod)
    assert agents.text(root, "cpu,cpuacct", folder, "cpu.shares") == "512"


def test_a_resized_pod_gets_its_values_again(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    pod, _ = BATCH.pod.messages()
    shares = tmp_path / "sys/fs/cgroup/cpu,cpuacct" / BATCH.pod.folder / "cpu.shares"
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(pod)
        shares.write_text("3\n")
        runtime.post_update_pod_sandbox(pod)
    assert shares.read_text().strip() == "512"
    assert parts.history.account(UID)


def test_a_pod_with_a_folder_outside_of_the_cgroups_is_refused(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    pod.linux.cgroup_parent = "/kubepods/../../../etc"
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(pod)
        assert runtime.create_container(pod, container).resources.cpu.shares.value == 512
    assert {write["outcome"] for write in writes(parts).values()} >= {"refused"}


# -- clears -----------------------------------------------------------------------------------------------------------


def test_cpus_are_cleared_right_before_the_container_starts(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, CLEAR)
    pod, container = CLEAR.pod.messages()
    file = tmp_path / "sys/fs/cgroup/cpuset" / CLEAR.pod.folder / CONTAINER_ID / "cpuset.cpus"
    file.write_text("2\n")
    with FakeRuntime() as runtime:
        created = runtime.add(plugin).create_container(pod, container)
        assert file.read_text().strip() == "2"
        runtime.start_container(pod, created.container)
        assert file.read_text().strip() == "0-3", "the CPUs of the pod: cgroup v1 has no empty set"
    assert writes(parts)["cpuset.cpus"]["reason"] == ""


def test_on_cgroup_v2_a_cleared_container_gets_the_effective_cpus_of_its_parent(tmp_path: Path) -> None:
    folder = f"{CLEAR.pod.folder}/{CONTAINER_ID}"
    root = v2(tmp_path, CLEAR.pod.folder, folder)
    parts = agents.parts(root, node=CLEAR.base(), rules=CLEAR.documents)
    file = tmp_path / "sys/fs/cgroup" / folder / "cpuset.cpus"
    file.write_text("2\n")
    pod, container = CLEAR.pod.messages()
    with FakeRuntime() as runtime:
        created = runtime.add(HookPlugin(parts)).create_container(pod, container)
        runtime.start_container(pod, created.container)
    assert file.read_text().strip() == "0-3"


# -- updates ----------------------------------------------------------------------------------------------------------


def test_an_update_has_the_containers_id_and_scales_the_requested_quota(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, FAST)
    pod, container = FAST.pod.messages()
    with FakeRuntime() as runtime:
        created = runtime.add(plugin).create_container(pod, container)
        assert created.resources.cpu.quota.value == 50_000
        wish = m.LinuxResources()
        wish.cpu.quota.value = 300_000
        reply = runtime.update_container(pod, created.container, wish)
    assert reply.resources.cpu.quota.value == 150_000
    assert not reply.updates and not reply.reply.ignored, "it is the container's own update, by its id"


def test_an_update_request_without_a_quota_keeps_the_quota(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, FAST)
    pod, container = FAST.pod.messages()
    wish = m.LinuxResources()
    wish.cpu.shares.value = 2048
    with FakeRuntime() as runtime:
        created = runtime.add(plugin).create_container(pod, container)
        reply = runtime.update_container(pod, created.container, wish)
    assert not reply.resources.cpu.HasField("quota")
    assert reply.resources.cpu.shares.value == 2048


def test_an_update_without_decisions_is_unchanged(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, FAST, pod=Pod())
    pod, container = Pod().messages()
    wish = m.LinuxResources()
    wish.cpu.cpus = "0"
    with FakeRuntime() as runtime:
        runtime.add(plugin).create_container(pod, container)
        assert not runtime.update_container(pod, container, wish).changed


# -- what the runtime configures --------------------------------------------------------------------------------------


def test_events_in_the_configuration_replace_the_default_events(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin, config="events: [RunPodSandbox, UpdateContainer]")
        assert not runtime.create_container(pod, container).owners.owners
        runtime.run_pod_sandbox(pod)
    assert agents.text(Root(tmp_path), "cpu,cpuacct", BATCH.pod.folder, "cpu.shares") == "512"
    assert plugin.configure() == EventMask.of("RunPodSandbox", "UpdateContainer")


def test_without_configuration_all_useful_events_are_subscribed(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        assert plugin.configure() == EVENTS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("events: [RunPodSandboxx]", r"events.*RunPodSandboxx"),
        ("events: [ValidateContainerAdjustment]", r"no hook uses these events"),
        ("events: 7", r"events"),
        ("{error: error}", r"error"),
        ("events: [", r"configuration"),
    ],
)
def test_an_invalid_configuration_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    with FakeRuntime() as runtime, pytest.raises(ConfigError, match=words):
        runtime.add(plugin, config=text)


def test_disabled_stages_are_disabled_in_nri_mode(tmp_path: Path) -> None:
    root = machine(tmp_path, BATCH.pod)
    node = Node(disabled_stages=frozenset({"PreCreateContainer", "PreRunPodSandbox"}))
    plugin = HookPlugin(agents.parts(root, node=node))
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(pod)
        assert not runtime.create_container(pod, container).owners.owners
        assert runtime.update_container(pod, container, m.LinuxResources()).resources.cpu.shares.value == 512
    assert agents.text(root, "cpu,cpuacct", BATCH.pod.folder, "cpu.shares") == "1024"


# -- what has happened without us -------------------------------------------------------------------------------------


def test_a_container_without_decisions_gets_its_values_by_writes_at_its_start(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.start_container(pod, container)
    folder = f"{BATCH.pod.folder}/{CONTAINER_ID}"
    assert agents.text(Root(tmp_path), "cpu,cpuacct", folder, "cpu.cfs_quota_us") == "50000"


def test_values_of_a_late_response_are_applied_before_the_container_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    decide = type(parts.decisions).decide

    go = threading.Event()

    def slow(*arguments: Any) -> Any:
        go.wait(20)
        return decide(*arguments)

    with FakeRuntime() as runtime:
        runtime.add(plugin)
        assert plugin.failure_policy is not None
        assert plugin.failure_policy.keep_connected, "a late answer must not cost the connection"
        runtime.timeout(0.1)
        with monkeypatch.context() as patch:
            patch.setattr(type(parts.decisions), "decide", slow)
            created = runtime.create_container(pod, container)
        assert not created.owners.owners, "the runtime went on without it"
        go.set()
        runtime.timeout(20)
        runtime.start_container(pod, created.container)
        folder = f"{BATCH.pod.folder}/{CONTAINER_ID}"
        assert agents.text(Root(tmp_path), "cpu,cpuacct", folder, "cpu.cfs_quota_us") == "50000"
        assert plugin.reapply.run(plugin.runtime)
        (update,) = runtime.updates
        assert update.message.linux.resources.cpu.quota.value == 50_000, "the runtime knows of it as well"


def test_values_confirmed_by_the_runtime_are_not_written(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        created = runtime.add(plugin).create_container(pod, container)
        runtime.start_container(pod, created.container)
    folder = f"{BATCH.pod.folder}/{CONTAINER_ID}"
    assert agents.text(Root(tmp_path), "cpu,cpuacct", folder, "cpu.cfs_quota_us") == "-1"


def test_a_value_changed_by_a_later_plugin_is_recorded(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        created = runtime.add(plugin).create_container(pod, container)
        created.container.linux.resources.cpu.shares.value = 9
        runtime.post_create_container(pod, created.container)
    row = writes(parts)["cpu.shares"]
    assert (row["outcome"], row["reason"]) == ("clamped", "the runtime has 9")
    assert writes(parts)["cpu.cfs_quota"]["outcome"] == "applied"


def test_ended_pods_and_containers_are_forgotten(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        for number in range(50):
            pod, container = BATCH.pod.messages()
            pod.id, container.id, container.pod_sandbox_id = f"p{number}", f"c{number}", f"p{number}"
            runtime.run_pod_sandbox(pod)
            runtime.create_container(pod, container)
            if number % 2:  # the others are refused later on, and some runtimes say nothing of that
                runtime.stop_container(pod, container)
                runtime.remove_container(pod, container)
            runtime.remove_pod_sandbox(pod)
    assert plugin.held.counts() == {"nri pods": 0, "nri containers": 0}
    assert parts.executor.counts()["waiting writes"] == 0


def test_a_container_whose_name_is_not_in_the_annotation_is_unchanged(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    container.name = f"{MAIN}-2"
    with FakeRuntime() as runtime:
        assert not runtime.add(plugin).create_container(pod, container).owners.owners
    assert container.pod_sandbox_id == SANDBOX_ID


def test_an_old_runtime_gets_no_subscription_to_unknown_events(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        plugin.runtime.nri_version = "v0.6.1"
        assert EVENTS - plugin.configure() == EventMask.of("PostUpdatePodSandbox")


def test_removed_pods_leave_no_memory_behind(tmp_path: Path) -> None:
    """NRI_CYCLES=10000 for the long run, with files instead of a machine and one second per cycle."""
    clock = agents.Clock()
    parts = agents.parts(v1(tmp_path), node=BATCH.base(), clock=clock)
    plugin = HookPlugin(parts)
    sizes: list[tuple[Any, ...]] = []
    for number in range(int(os.environ.get("NRI_CYCLES", "60"))):
        clock.now += 1
        pod, container = BATCH.pod.messages()
        pod.id = container.pod_sandbox_id = f"p{number}"
        pod.uid, container.id = f"u{number}", f"c{number}"
        pod.linux.cgroup_parent = folder = f"/kubepods/besteffort/pod{pod.uid}"
        container.linux.cgroups_path = f"{folder}/{container.id}"
        existing = number % 3 > 0  # of some the cgroup never comes
        if existing:
            cgroups = tmp_path / "sys/fs/cgroup"
            write_files(cgroups / f"cpu,cpuacct{folder}", {"cpu.shares": "1024\n", "cpu.cfs_quota_us": "-1\n"})
            write_files(cgroups / f"memory{folder}", {"memory.limit_in_bytes": "4096\n"})
        plugin.run_pod_sandbox(pod)
        plugin.create_container(pod, container)
        plugin.post_create_container(pod, container)
        plugin.start_container(pod, container)
        plugin.reapply.run(plugin.runtime)
        if number % 2:
            plugin.stop_container(pod, container)
        if existing:
            for controllers in ("cpu,cpuacct", "memory"):
                shutil.rmtree(tmp_path / f"sys/fs/cgroup/{controllers}{folder}")
        plugin.remove_pod_sandbox(pod)
        if number % 30 == 29:
            sizes.append((plugin.held.counts(), parts.executor.counts(), len(os.listdir("/proc/self/fd"))))
    assert sizes[-1] == sizes[0]
    assert sizes[-1][0] == {"nri pods": 0, "nri containers": 0}
    assert sizes[-1][1]["waiting writes"] == 0


def test_an_update_of_an_unknown_container_is_decided_and_the_container_recorded(
    tmp_path: Path,
) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    pod, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        reply = runtime.add(plugin).update_container(pod, container, m.LinuxResources())
    assert reply.resources.cpu.quota.value == 50_000
    assert plugin.held.counts()["nri containers"] == 1


def test_an_internal_error_costs_a_container_only_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, parts = make_parts(tmp_path, CLEAR, fail=True)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(type(parts.executor), "changes", broken)
    monkeypatch.setattr(type(parts.executor), "retry", broken)
    monkeypatch.setattr(hook_plugin, "clear_cpus", broken)
    monkeypatch.setattr(hook_plugin.translation, "comparison_results", broken)
    pod, container = CLEAR.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(pod)
        created = runtime.create_container(pod, container).container
        runtime.post_create_container(pod, created)
        runtime.start_container(pod, created)
        runtime.remove_pod_sandbox(pod)
    assert caplog.text.count("RuntimeError: a defect") >= 4
