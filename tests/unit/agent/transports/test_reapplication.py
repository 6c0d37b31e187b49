"""Running containers are decided again, at Synchronize and after changes of rules, by unsolicited updates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import batch_resource, cpu_normalization, cpuset, group_identity, oom_score_adj, resctrl
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.agent.model import Resources
from nri.agent.parts import Parts
from nri.agent.transports import reapplication as reapply
from nri.agent.transports.hook_plugin import HookPlugin
from nri.agent.transports.translation import ASKED_QUOTA
from nri.api import messages as m
from nri.errors import ConnectionClosed
from nri.testing import FakeRuntime
from tests.support import agents
from tests.support.hook_modes import CASES, CONTAINER_ID, MAIN, SANDBOX_ID, UID, Case, Pod
from tests.support.host_trees import v1

BATCH = next(case for case in CASES if case.hook == "BatchResource")
SHARED = next(case for case in CASES if case.title == "share pools")
CLEAR = next(case for case in CASES if case.title == "clear")
FAST = next(case for case in CASES if case.hook == "CPUNormalization")
SCORE = next(case for case in CASES if case.hook == "OOMScoreAdj")
RUNNING = m.ContainerState.CONTAINER_RUNNING
NO_QUOTA = {"spec": {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}}


def pools(*cpus: str) -> dict[str, Any]:
    listed = [{"socket": 0, "node": number, "cpuset": entry} for number, entry in enumerate(cpus)]
    return {"metadata": {"annotations": {cpuset.ANNOTATION_SHARE_POOLS: json.dumps(listed)}}}


def ratio(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: text}}}


def make_parts(folder: Path, case: Case, pod: Pod | None = None) -> tuple[HookPlugin, Parts]:
    pod = pod or case.pod
    root = v1(folder, pod.folder, f"{pod.folder}/{CONTAINER_ID}")
    parts = agents.parts(root, node=case.base(), rules=case.documents)
    return HookPlugin(parts), parts


def running(pod: Pod) -> tuple[m.PodSandbox, m.Container]:
    sandbox, container = pod.messages()
    container.state = RUNNING
    return sandbox, container


@contextmanager
def with_pod(plugin: HookPlugin, pod: Pod) -> Iterator[FakeRuntime]:
    """A runtime in which the plugin has seen the pod come and its container start."""
    sandbox, container = pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(sandbox)
        created = runtime.create_container(sandbox, container).container
        runtime.post_create_container(sandbox, created)
        runtime.start_container(sandbox, created)
        yield runtime


def run(plugin: HookPlugin) -> bool:
    plugin.reapply.rules_changed()
    return plugin.reapply.run(plugin.runtime)


def writes(parts: Parts) -> dict[str, dict[str, Any]]:
    return {write["name"]: write for write in (parts.history.account(UID) or {}).get("writes", [])}


# -- Synchronize ------------------------------------------------------------------------------------------------------


def test_running_containers_get_their_values_at_synchronize(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    sandbox, container = running(BATCH.pod)
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
        (update,) = runtime.updates
    assert update.container_id == CONTAINER_ID
    assert update.message.linux.resources.cpu.quota.value == 50_000
    assert agents.text(parts.root, "cpu,cpuacct", BATCH.pod.folder, "cpu.shares") == "512"


def test_no_update_is_sent_for_correct_values(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    with with_pod(plugin, BATCH.pod) as runtime:
        runtime.restart()
        assert runtime.updates == []
        assert run(plugin)
        assert runtime.updates == []


@pytest.mark.parametrize("state", ["CONTAINER_STOPPED", "CONTAINER_UNKNOWN"])
def test_stopped_containers_are_ignored(tmp_path: Path, state: str) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    sandbox, container = BATCH.pod.messages()
    container.state = m.ContainerState.Value(state)
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
        assert runtime.updates == []


def test_one_bad_pod_does_not_affect_the_values_of_others(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, SHARED)
    good = running(SHARED.pod)
    bad_pod, bad = running(Pod(n.LS, annotations={cpuset.ANNOTATION_STATUS: "{"}))
    bad_pod.id = bad.pod_sandbox_id = bad.id = "bad"
    with FakeRuntime(pods=[bad_pod, good[0]], containers=[bad, good[1]]) as runtime:
        runtime.add(plugin)
        assert [update.container_id for update in runtime.updates] == [CONTAINER_ID]


def test_updates_without_time_left_follow_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    collected: list[int] = []
    monkeypatch.setattr(plugin.refresher, "ask", lambda: collected.append(1))
    monkeypatch.setattr(plugin, "time_left", lambda: -1.0)
    sandbox, container = running(BATCH.pod)
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
        assert runtime.updates == []
        assert collected
        assert plugin.reapply.run(plugin.runtime)
        assert [update.container_id for update in runtime.updates] == [CONTAINER_ID]


def test_oom_scores_and_clears_are_applied_to_running_containers(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, CLEAR)
    sandbox, container = running(CLEAR.pod)
    file = tmp_path / "sys/fs/cgroup/cpuset" / CLEAR.pod.folder / CONTAINER_ID / "cpuset.cpus"
    file.write_text("2\n")
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
    assert file.read_text().strip() == "0-3"
    plugin, parts = make_parts(tmp_path / "two", SCORE)
    folder = f"{SCORE.pod.folder}/{CONTAINER_ID}"
    (tmp_path / "two/sys/fs/cgroup/cpu,cpuacct" / folder / "cgroup.procs").write_text("11\n")
    proc = tmp_path / "two/proc/11"
    proc.mkdir(parents=True)
    (proc / "stat").write_text("11 (sh) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n")
    (proc / "oom_score_adj").write_text("0\n")
    sandbox, container = running(SCORE.pod)
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
    assert (proc / "oom_score_adj").read_text().strip() == "500"
    assert writes(parts)["oom_score_adj"]["outcome"] == "applied"


def test_a_pod_removed_during_a_disconnection_is_forgotten(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, BATCH)
    with with_pod(plugin, BATCH.pod) as runtime:
        assert plugin.held.counts() == {"nri pods": 1, "nri containers": 1}
        runtime.pods.clear()
        runtime.containers.clear()
        runtime.restart()
        assert plugin.held.counts() == {"nri pods": 0, "nri containers": 0}


def test_a_pod_removed_without_an_event_is_forgotten_at_the_second_sweep(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    sandbox, container = BATCH.pod.messages()
    with FakeRuntime() as runtime:
        runtime.add(plugin).run_pod_sandbox(sandbox)
        created = runtime.create_container(sandbox, container).container
        cgroups = tmp_path / "sys/fs/cgroup"
        for _ in range(3):
            plugin.sweep()
        assert plugin.held.counts()["nri pods"] == 1, "its cgroup is there"
        for entry in cgroups.iterdir():
            shutil.rmtree(entry / BATCH.pod.folder)
        for _ in range(3):
            plugin.sweep()
        assert plugin.held.counts()["nri pods"] == 1, "it has a container"
        runtime.remove_container(sandbox, created)
        plugin.sweep()
        v1(tmp_path, BATCH.pod.folder)
        plugin.sweep()
        assert plugin.held.counts()["nri pods"] == 1, "its cgroup has come"
        for entry in cgroups.iterdir():
            shutil.rmtree(entry / BATCH.pod.folder)
        plugin.sweep()
        assert plugin.held.counts()["nri pods"] == 1
        plugin.sweep()
        assert plugin.held.counts()["nri pods"] == 0
    assert (parts.history.account(UID) or {})["ended"]


def test_an_internal_error_does_not_stop_the_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, container = running(BATCH.pod)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    for number, (where, name) in enumerate(
        [("decisions", "decide"), ("executor", "oom_score"), ("executor", "changes"), ("translation", "update")]
    ):
        plugin, parts = make_parts(tmp_path / str(number), SCORE if name == "oom_score" else BATCH, BATCH.pod)
        if name == "oom_score":
            sandbox.annotations[oom_score_adj.ANNOTATION_OOM_SCORE] = "5"
        caplog.clear()
        with monkeypatch.context() as patch, FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
            patch.setattr(reapply.translation if where == "translation" else type(getattr(parts, where)), name, broken)
            runtime.add(plugin)
            assert runtime.health("10-nri-agent").state == "active"
        assert caplog.text.count("a defect") or "a defect" in str(parts.history.account(UID))


# -- changed rules ----------------------------------------------------------------------------------------------------


def test_a_changed_rule_reaches_running_containers_by_updates(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    with with_pod(plugin, SHARED.pod) as runtime:
        parts.store.put("NodeResourceTopology", pools("3"), "a test")
        assert run(plugin)
        (update,) = runtime.updates
        assert (update.container_id, update.cpuset_cpus) == (CONTAINER_ID, "3")
    assert writes(parts)["cpuset.cpus"]["outcome"] == "applied"


def test_a_rule_without_effect_on_a_container_sends_no_update(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    with with_pod(plugin, SHARED.pod) as runtime:
        parts.store.put("Node", ratio("3"), "a test")
        assert run(plugin)
        assert runtime.updates == []


def test_an_update_refused_by_the_runtime_is_reported_and_retried(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    with with_pod(plugin, SHARED.pod) as runtime:
        parts.store.put("NodeResourceTopology", pools("3"), "a test")
        runtime.refuse_updates.add(CONTAINER_ID)
        assert not run(plugin)
        row = writes(parts)["cpuset.cpus"]
        assert (row["outcome"], row["reason"]) == ("refused", "the runtime could not update the container")
        runtime.refuse_updates.clear()
        assert plugin.reapply.run(plugin.runtime)
        assert [update.cpuset_cpus for update in runtime.updates] == ["3"]


def test_a_closed_connection_is_reported_and_the_update_left_to_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    with with_pod(plugin, SHARED.pod) as runtime:
        parts.store.put("NodeResourceTopology", pools("3"), "a test")

        def closed(*_: object) -> None:
            raise ConnectionClosed("gone")

        with monkeypatch.context() as patch:
            patch.setattr(type(plugin.runtime), "update", closed)
            assert not run(plugin)
        assert "gone" in writes(parts)["cpuset.cpus"]["reason"]
        runtime.restart()
        assert [update.cpuset_cpus for update in runtime.updates] == ["3"]


def test_without_a_connection_pods_are_written_directly(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, BATCH)
    with with_pod(plugin, BATCH.pod):
        pass
    parts.store.put("NodeSLO", NO_QUOTA, "a test")
    assert run(plugin)
    assert agents.text(parts.root, "cpu,cpuacct", BATCH.pod.folder, "cpu.cfs_quota_us") == "-1"


def test_many_containers_are_updated_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    sandbox, container = running(SHARED.pod)
    containers = []
    for number in range(2 * reapply.PORTION + 5):
        entry = m.Container()
        entry.CopyFrom(container)
        entry.id, entry.name = f"c{number}", f"{MAIN}-{number}"
        entry.linux.cgroups_path = f"/{SHARED.pod.folder}/c{number}"
        containers.append(entry)
    with FakeRuntime(pods=[sandbox], containers=containers) as runtime:
        runtime.add(plugin)
        runtime.updates.clear()
        sizes: list[int] = []
        update = type(plugin.runtime).update

        def counted(handle: Any, *updates: Any) -> Any:
            sizes.append(len(updates))
            return update(handle, *updates)

        monkeypatch.setattr(type(plugin.runtime), "update", counted)
        parts.store.put("NodeResourceTopology", pools("3"), "a test")
        assert run(plugin)
        assert len(runtime.updates) == len(containers)
        assert sizes == [reapply.PORTION, reapply.PORTION, 5]


def test_a_container_created_during_a_rule_change_is_decided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    collected: list[int] = []
    monkeypatch.setattr(plugin.refresher, "ask", lambda: collected.append(1))
    sandbox, container = SHARED.pod.messages()
    with FakeRuntime() as runtime:
        created = runtime.add(plugin).create_container(sandbox, container).container
        parts.store.put("NodeResourceTopology", pools("3"), "a test")
        assert run(plugin)
        assert runtime.updates == [], "the runtime does not know it yet"
        assert not collected
        runtime.post_create_container(sandbox, created)
        assert collected
        assert plugin.reapply.run(plugin.runtime)
        assert [update.cpuset_cpus for update in runtime.updates] == ["3"]


@pytest.mark.parametrize("event", ["synchronize", "run", "resize", "start"])
def test_a_rule_changed_during_a_decision_applies_to_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    """The refresher thread may have run before the container was known."""
    plugin, parts = make_parts(tmp_path, SHARED)
    collected: list[int] = []
    monkeypatch.setattr(plugin.refresher, "ask", lambda: collected.append(1))
    sandbox, container = running(SHARED.pod)
    decide = type(parts.decisions).decide

    def overtaken(*arguments: Any) -> Any:
        outcome = decide(*arguments)
        plugin.reapply.rules_changed()
        return outcome

    events = {
        "run": lambda: runtime.run_pod_sandbox(sandbox),
        "resize": lambda: runtime.post_update_pod_sandbox(sandbox),
        "start": lambda: runtime.start_container(sandbox, container),
    }
    existing = ([sandbox], [container]) if event == "synchronize" else ([], [])
    with FakeRuntime(pods=existing[0], containers=existing[1]) as runtime:
        if event == "synchronize":
            monkeypatch.setattr(type(parts.decisions), "decide", overtaken)
            runtime.add(plugin)
        else:
            runtime.add(plugin)
            monkeypatch.setattr(type(parts.decisions), "decide", overtaken)
            events[event]()
    assert collected


def test_a_rule_changed_before_the_runtime_applies_an_old_response_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime may apply the new rule's update first, and then the old response to the kubelet's request."""
    plugin, parts = make_parts(tmp_path, SHARED)
    collected: list[int] = []
    monkeypatch.setattr(plugin.refresher, "ask", lambda: collected.append(1))
    sandbox, container = running(SHARED.pod)
    with with_pod(plugin, SHARED.pod) as runtime:

        def requested() -> None:
            collected.clear()
            runtime.update_container(sandbox, container, m.LinuxResources())

        requested()
        parts.store.put("NodeResourceTopology", pools("3"), "a test")
        assert run(plugin)
        runtime.post_update_container(sandbox, container)
        assert collected
        assert plugin.reapply.run(plugin.runtime)
        assert [update.cpuset_cpus for update in runtime.updates] == ["3", "3"]
        requested()
        runtime.post_update_container(sandbox, container)
        assert not collected, "nothing has changed since"


def test_a_shrinking_pod_is_written_again_after_its_containers(tmp_path: Path) -> None:
    """The kernel refuses a pod quota below its container's quota, so the container must shrink first."""
    plugin, parts = make_parts(tmp_path, BATCH)
    refused: list[str] = []
    with with_pod(plugin, BATCH.pod) as runtime:
        parts.store.put("NodeSLO", NO_QUOTA, "a test")
        run(plugin)
        write = type(parts.root).write

        def strict(root: Any, path: str, text: str) -> None:
            if path.endswith(f"{UID}/cpu.cfs_quota_us") and not runtime.updates[1:]:
                refused.append(text)
                raise OSError(22, "Invalid argument")
            write(root, path, text)

        type(parts.root).write = strict  # type: ignore[method-assign]
        try:
            parts.store.put("NodeSLO", {"spec": {}}, "a test")
            assert run(plugin)
        finally:
            type(parts.root).write = write  # type: ignore[method-assign]
    assert refused == ["50000"]
    assert agents.text(parts.root, "cpu,cpuacct", BATCH.pod.folder, "cpu.cfs_quota_us") == "50000"


# -- requested values -------------------------------------------------------------------------------------------------


def test_a_changed_ratio_scales_the_requested_quota_and_not_the_scaled_one(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, FAST)
    with with_pod(plugin, FAST.pod) as runtime:
        parts.store.put("Node", ratio("4"), "a test")
        assert run(plugin)
        assert [update.message.linux.resources.cpu.quota.value for update in runtime.updates] == [25_000]


def test_a_removed_ratio_restores_the_quota(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, FAST)
    with with_pod(plugin, FAST.pod) as runtime:
        parts.store.put("Node", None, "a test")
        assert run(plugin)
        assert [update.message.linux.resources.cpu.quota.value for update in runtime.updates] == [100_000]


def test_a_removed_topology_restores_the_cpus(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    file = tmp_path / "sys/fs/cgroup/cpuset" / SHARED.pod.folder / CONTAINER_ID / "cpuset.cpus"
    with with_pod(plugin, SHARED.pod):
        file.write_text("0-1\n")
        parts.store.put("NodeResourceTopology", None, "a test")
        assert run(plugin)
    assert file.read_text().strip() == "0-3"


def test_a_restarted_agent_reads_the_requested_quota_from_the_container(tmp_path: Path) -> None:
    plugin, _ = make_parts(tmp_path, FAST)
    with with_pod(plugin, FAST.pod) as runtime:
        runtime.disconnect()
        (container,) = runtime.containers.values()
        assert container.annotations[ASKED_QUOTA] == "100000 50000"
        container.state = RUNNING
        second, parts = make_parts(tmp_path / "two", FAST)
        runtime.add(second, name="second")
        assert runtime.updates == []
        parts.store.put("Node", ratio("4"), "a test")
        assert run(second)
        assert [update.message.linux.resources.cpu.quota.value for update in runtime.updates] == [25_000]


@pytest.mark.parametrize("forged", ["pod", "other quota", "no numbers"])
def test_a_quota_with_an_unknown_request_is_unchanged(tmp_path: Path, forged: str) -> None:
    plugin, _ = make_parts(tmp_path, FAST)
    sandbox, container = running(FAST.pod)
    container.annotations[ASKED_QUOTA] = {"other quota": "9000000 7000", "no numbers": "x y"}.get(
        forged, "900000 100000"
    )
    if forged == "pod":
        sandbox.annotations[ASKED_QUOTA] = container.annotations[ASKED_QUOTA]
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
        assert runtime.updates == []


def test_requests_from_the_api_are_used(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, FAST)
    pods = parts.pods
    assert isinstance(pods, agents.Pods)
    pods.replace([FAST.pod.manifest(), {"metadata": {"uid": "x"}, "spec": {"containers": [{"resources": 7}]}}])
    sandbox, container = running(FAST.pod)
    with FakeRuntime(pods=[sandbox], containers=[container]) as runtime:
        runtime.add(plugin)
        assert [update.message.linux.resources.cpu.quota.value for update in runtime.updates] == [50_000]


def test_a_kubelet_request_during_an_update_is_decided_after_the_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, parts = make_parts(tmp_path, FAST)
    with with_pod(plugin, FAST.pod) as runtime:
        parts.store.put("Node", ratio("4"), "a test")
        update = type(plugin.runtime).update
        known_entry = plugin.held.container(CONTAINER_ID)
        assert known_entry is not None

        def meanwhile(handle: Any, *updates: Any) -> Any:
            plugin.held.ask(known_entry, replace(known_entry.context, resources=Resources(cfs_quota=400_000)))
            return update(handle, *updates)

        with monkeypatch.context() as patch:
            patch.setattr(type(plugin.runtime), "update", meanwhile)
            assert not run(plugin)
        assert plugin.reapply.run(plugin.runtime)
        quotas = [update.message.linux.resources.cpu.quota.value for update in runtime.updates]
        assert quotas == [25_000, 100_000]


# -- bad annotations --------------------------------------------------------------------------------------------------

MALFORMED = {
    cpuset.ANNOTATION_STATUS: '{"cpuset": [',
    batch_resource.ANNOTATION_EXTENDED: "not json",
    oom_score_adj.ANNOTATION_OOM_SCORE: "many",
    group_identity.ANNOTATION_CPU_QOS: "[]",
    resctrl.ANNOTATION_RESCTRL: "{]",
}


@pytest.mark.parametrize("event", ["synchronize", "rules", "update", "resized"])
@pytest.mark.parametrize("fail", [False, True], ids=["Ignore", "Fail"])
def test_a_malformed_annotation_never_clears_applied_values(tmp_path: Path, event: str, fail: bool) -> None:
    """A pod with CPUs and batch limits, whose annotations are then replaced by invalid text."""
    own_part = {**BATCH.pod.annotations, cpuset.ANNOTATION_STATUS: json.dumps({"cpuset": "1"})}
    pod = Pod(n.BE, paths.BEST_EFFORT, annotations=own_part)
    root = v1(tmp_path, pod.folder, f"{pod.folder}/{CONTAINER_ID}")
    parts = agents.parts(root, node=Node(fail=fail), rules=SHARED.documents)
    plugin = HookPlugin(parts)
    with with_pod(plugin, pod) as runtime:
        (container,) = runtime.containers.values()
        container.state = RUNNING
        before = container.linux.resources.SerializeToString(deterministic=True)
        on_disk = files(tmp_path)
        bad = runtime.pods[SANDBOX_ID]
        bad.annotations.update(MALFORMED)
        if event == "synchronize":
            runtime.restart()
        elif event == "rules":
            runtime.restart()
            parts.store.put("NodeResourceTopology", pools("3"), "a test")
            assert run(plugin)
        elif event == "resized":
            runtime.post_update_pod_sandbox(bad)
        elif not fail:
            runtime.update_container(bad, container, m.LinuxResources())
            runtime.post_update_container(bad, container)
            parts.store.put("NodeResourceTopology", None, "a test")
            assert run(plugin)
        assert runtime.updates == []
        assert container.linux.resources.SerializeToString(deterministic=True) == before
    assert files(tmp_path) == on_disk


def test_a_hook_that_fails_later_restores_no_values(tmp_path: Path) -> None:
    plugin, parts = make_parts(tmp_path, SHARED)
    with with_pod(plugin, SHARED.pod) as runtime:
        known_entry = plugin.held.container(CONTAINER_ID)
        assert known_entry is not None
        known_entry.context = replace(known_entry.context, pod=replace(known_entry.context.pod, annotations=MALFORMED))
        (tmp_path / "sys/fs/cgroup/cpuset" / SHARED.pod.folder / CONTAINER_ID / "cpuset.cpus").write_text("1\n")
        before = files(tmp_path)
        parts.store.put("NodeResourceTopology", pools("3"), "a test")
        assert run(plugin)
        assert runtime.updates == []
    assert files(tmp_path) == before


def files(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}
