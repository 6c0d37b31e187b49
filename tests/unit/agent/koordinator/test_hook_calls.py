"""Replies to the calls of Koordinator's hook protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator import batch_resource, cpu_normalization, cpuset, gpu, hook_calls
from nri.agent.koordinator import names as n
from nri.agent.koordinator.hook_calls import HookCalls, HookRefused, stages_of
from nri.agent.koordinator.node import Node
from nri.host import Root
from tests.support.agents import POD, TOPOLOGY, UID, parts, text
from tests.support.host_trees import FILES_V1, TOP, V1, v1, write_files

NUMBER = "c" * 64
BVT = "cpu.bvt_warp_ns"
GPU_RATIO = "koordinator.sh/gpu-memory-ratio"
APP = f"{POD}/{NUMBER}"
META = {"name": "batch", "namespace": "shop", "uid": UID}
RATIO = {"Node": {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "2"}}}}
BATCH = json.dumps({"containers": {"app": {"limits": {n.BATCH_CPU: "500"}, "requests": {n.BATCH_CPU: "500"}}}})


def container(number: str = "", **more: Any) -> dict[str, Any]:
    """A request about a container; with an id once there is one."""
    return {
        "pod_meta": META,
        "pod_labels": {},
        "pod_annotations": {},
        "pod_cgroup_parent": f"/{POD}",
        "container_meta": {"name": "app", **({"id": number} if number else {})},
        "container_resources": {},
        **more,
    }


def identity(value: int) -> dict[str, Any]:
    """The rule of a group identity for latency-sensitive pods."""
    return {"spec": {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": value}}}}}


def pod(**more: Any) -> dict[str, Any]:
    return {"pod_meta": META, "labels": {}, "annotations": {}, "cgroup_parent": f"/{POD}", **more}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return v1(tmp_path, POD, APP)


def test_stages_are_those_with_an_enabled_hook_and_the_ends_of_kept_objects() -> None:
    kept_part = ["PostStartContainer", "PostStopContainer", "PostStopPodSandbox"]
    assert stages_of(Node()) == ["PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources", *kept_part]
    assert stages_of(Node(gates=frozenset({"GPUEnvInject"}))) == ["PreCreateContainer", *kept_part]
    off = frozenset({"PreCreateContainer"})
    assert stages_of(Node(gates=frozenset({"GPUEnvInject"}), disabled_stages=off)) == []
    assert stages_of(Node(gates=frozenset({"TerwayQoS"}))) == []


def test_a_reply_repeats_the_request_with_the_changes(root: Root) -> None:
    calls = HookCalls(parts(root, rules={"NodeResourceTopology": TOPOLOGY}))
    request = container(
        pod_labels={n.LABEL_QOS: n.LS},
        container_annotations={"a": "1"},
        container_envs={"A": "1"},
        container_resources={"cpu_shares": 7, "cpuset_cpus": "9", "unified": {"x": "y"}},
    )
    assert calls.answer("PreCreateContainer", request) == {
        "container_annotations": {"a": "1"},
        "container_envs": {"A": "1"},
        "pod_cgroup_parent": f"/{POD}",
        "container_resources": {"cpu_shares": 7, "cpuset_cpus": "0-3", "unified": {"x": "y"}},
    }
    assert calls.answer("PreStartContainer", pod(labels={"l": "1"})) == {
        "labels": {"l": "1"},
        "annotations": {},
        "cgroup_parent": f"/{POD}",
    }
    with pytest.raises(KeyError):
        calls.answer("PreRemovePod", {})["labels"]


def test_a_ratio_is_not_applied_twice_to_a_scaled_quota(root: Root) -> None:
    calls = HookCalls(parts(root, node=Node(gates=frozenset({"CPUNormalization"})), rules=RATIO))
    labels = {n.LABEL_QOS: n.LS}

    def quota(stage: str, number: str, requested: int) -> int:
        request = container(number, pod_labels=labels, container_resources={"cpu_quota": requested})
        answer: int = calls.answer(stage, request)["container_resources"]["cpu_quota"]
        return answer

    assert quota("PreCreateContainer", "", 100_000) == 50_000
    calls.answer("PostStartContainer", container(NUMBER, pod_labels=labels, container_resources={"cpu_quota": 50_000}))
    assert quota("PreUpdateContainerResources", NUMBER, 50_000) == 50_000, "the proxy sends the value in force"
    assert quota("PreUpdateContainerResources", NUMBER, 50_000) == 50_000
    assert quota("PreUpdateContainerResources", NUMBER, 80_000) == 40_000, "the kubelet requests another one"


def test_a_changed_rule_is_written_to_running_containers_only(root: Root) -> None:
    shared = parts(root, node=Node(gates=frozenset({"CPUNormalization"})), rules=RATIO)
    calls = HookCalls(shared)
    labels = {n.LABEL_QOS: n.LS}
    requested = {"pod_labels": labels, "container_resources": {"cpu_quota": 100_000}}
    calls.answer("PreCreateContainer", container(**requested))
    assert calls.apply_again() == 0, "it does not run yet"
    in_force = {"pod_labels": labels, "container_resources": {"cpu_quota": 50_000}}
    calls.answer("PostStartContainer", container(NUMBER, **in_force))
    shared.store.put("Node", {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "4"}}}, "a test")
    assert calls.apply_again() == 1
    assert text(root, "cpu,cpuacct", APP, "cpu.cfs_quota_us") == "25000"
    assert text(root, "cpu,cpuacct", POD, "cpu.cfs_quota_us") == "-1", "the pod is not its container"
    calls.answer("PostStopContainer", container(NUMBER, **in_force))
    assert calls.apply_again() == 0


def test_a_rule_changed_between_creation_and_start_applies_to_the_container(root: Root) -> None:
    shared = parts(root, node=Node(gates=frozenset({"CPUNormalization"})), rules=RATIO)
    calls = HookCalls(shared)
    labels = {n.LABEL_QOS: n.LS}
    calls.answer("PreCreateContainer", container(pod_labels=labels, container_resources={"cpu_quota": 100_000}))
    shared.store.put("Node", {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "4"}}}, "a test")
    calls.apply_again()
    in_force = {"pod_labels": labels, "container_resources": {"cpu_quota": 50_000}}
    calls.answer("PostStartContainer", container(NUMBER, **in_force))
    assert text(root, "cpu,cpuacct", APP, "cpu.cfs_quota_us") == "25000"


def test_a_rule_changed_during_the_decision_applies_to_the_pod(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(Path(root.path), {f"{TOP}/cpu,cpuacct/{POD}/{BVT}": "0\n"})
    shared = parts(root, rules={"NodeSLO": identity(1)})
    calls = HookCalls(shared)
    decide = type(shared.decisions).decide

    def overtaken(*arguments: Any) -> Any:
        outcome = decide(*arguments)
        monkeypatch.undo()
        shared.store.put("NodeSLO", identity(2), "a test")
        calls.apply_again()
        return outcome

    monkeypatch.setattr(type(shared.decisions), "decide", overtaken)
    calls.answer("PreRunPodSandbox", pod(labels={n.LABEL_QOS: n.LS}))
    assert text(root, "cpu,cpuacct", POD, BVT) == "2"


def test_a_pods_values_wait_for_its_cgroup_until_its_first_container_starts(tmp_path: Path) -> None:
    root = v1(tmp_path, "kubepods")
    calls = HookCalls(parts(root))
    batch = {n.LABEL_QOS: n.BE}, {batch_resource.ANNOTATION_EXTENDED: BATCH}
    calls.answer("PreRunPodSandbox", pod(labels=batch[0], annotations=batch[1]))
    for controllers in V1:
        files = {f"{TOP}/{controllers}/{POD}/{name}": f"{value}\n" for name, value in FILES_V1[controllers].items()}
        write_files(tmp_path, files | {f"{TOP}/{controllers}/{POD}/cgroup.procs": ""})
    request = container(NUMBER, pod_labels=batch[0], pod_annotations=batch[1])
    calls.answer("PostStartContainer", request)
    assert text(root, "cpu,cpuacct", POD, "cpu.shares") == "512"


def test_an_update_clears_cpus_although_the_cri_cannot_express_it(tmp_path: Path) -> None:
    """On cgroup v1, clearing means the value of the parent cgroup."""
    folder = POD.replace("burstable", "besteffort")
    root = v1(tmp_path, folder, app := APP.replace("burstable", "besteffort"))
    calls = HookCalls(parts(root, rules={"NodeResourceTopology": TOPOLOGY}))
    write_files(tmp_path, {f"{TOP}/cpuset/{folder}/cpuset.cpus": "1-2\n"})
    request = container(pod_labels={n.LABEL_QOS: n.BE}, container_resources={"cpuset_cpus": "1"})
    request["pod_cgroup_parent"] = f"/{folder}"
    assert calls.answer("PreUpdateContainerResources", request)["container_resources"]["cpuset_cpus"] == ""
    assert text(root, "cpuset", app, "cpuset.cpus") == "0-3"
    assert text(root, "cpuset", folder, "cpuset.cpus") == "1-2", (
        "without an id the container's folder would be its pod's"
    )
    request["container_meta"] = {"name": "app", "id": NUMBER}
    assert calls.answer("PreUpdateContainerResources", request)["container_resources"]["cpuset_cpus"] == ""
    assert text(root, "cpuset", app, "cpuset.cpus") == "1-2"


def test_values_outside_the_protocol_are_reported_as_unsupported(root: Root) -> None:
    share = dict.fromkeys(("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", GPU_RATIO), "50")
    devices = {"gpu": [{"minor": 0, "resources": share}]}
    shared = parts(root, node=Node(gates=frozenset({"GPUEnvInject"})))
    request = container(
        pod_labels={gpu.LABEL_GPU_ISOLATION: "HAMi-core"}, pod_annotations={n.ANNOTATION_DEVICES: json.dumps(devices)}
    )
    assert HookCalls(shared).answer("PreCreateContainer", request)["container_envs"]["NVIDIA_VISIBLE_DEVICES"] == "0"
    account = shared.history.account(UID)
    assert account is not None
    rows = {row["name"]: (row["outcome"], row["container"]) for row in account["writes"]}
    assert rows["mount /usr/local/vgpu/libvgpu.so"] == ("unsupported", "app")
    assert all("hook protocol cannot express" in row["reason"] for row in account["writes"])


def test_an_invalid_annotation_fails_its_request_only_under_the_policy_fail(root: Root) -> None:
    bad = pod(labels={n.LABEL_QOS: n.BE}, annotations={cpuset.ANNOTATION_STATUS: "{"})
    shared = parts(root)
    assert HookCalls(shared).answer("PreRunPodSandbox", bad) == {
        key: bad[key] for key in ("labels", "annotations", "cgroup_parent")
    }
    assert text(root, "cpu,cpuacct", POD, "cpu.shares") == "1024"
    account = shared.history.account(UID)
    assert account is not None
    assert [row["hook"] for row in account["errors"]] == ["CPUSetAllocator"]
    strict = HookCalls(parts(root, node=Node(fail=True)))
    with pytest.raises(HookRefused, match="CPUSetAllocator"):
        strict.answer("PreRunPodSandbox", bad)
    strict.answer("PostStopPodSandbox", bad)
    assert strict.answer("PreRunPodSandbox", pod())["cgroup_parent"] == f"/{POD}"


def test_remembered_pods_are_limited_and_forgotten_at_their_end(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_calls, "MAX_ENTRIES", 3)
    calls = HookCalls(parts(root))
    for number in range(5):
        meta = {**META, "uid": f"uid{number}"}
        calls.answer("PreRunPodSandbox", pod(pod_meta=meta))
        calls.answer("PostStartContainer", container(NUMBER, pod_meta=meta))
    assert calls.apply_again() == 6
    calls.answer("PostStopPodSandbox", pod(pod_meta={**META, "uid": "uid4"}))
    assert calls.apply_again() == 4


def test_a_systemd_cgroup_is_found_by_its_short_name(tmp_path: Path) -> None:
    slice_ = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
    folder = f"kubepods.slice/kubepods-besteffort.slice/{slice_}"
    own_part = f"{folder}/cri-containerd-{NUMBER}.scope"
    root = v1(tmp_path, folder, own_part)
    calls = HookCalls(parts(root, rules={"NodeResourceTopology": TOPOLOGY}))
    batch = {n.LABEL_QOS: n.BE}, {batch_resource.ANNOTATION_EXTENDED: BATCH}
    calls.answer("PreRunPodSandbox", pod(labels=batch[0], annotations=batch[1], cgroup_parent=slice_))
    assert text(root, "cpu,cpuacct", folder, "cpu.shares") == "512"
    request = container(NUMBER, pod_labels=batch[0], pod_annotations=batch[1], pod_cgroup_parent=slice_)
    calls.answer("PostStartContainer", request)
    calls.apply_again()
    assert text(root, "cpu,cpuacct", own_part, "cpu.shares") == "512"


def test_many_pods_leave_nothing(root: Root) -> None:
    shared = parts(root)
    calls = HookCalls(shared)
    for number in range(100):
        meta = {**META, "uid": f"uid{number}", "name": f"p{number}"}
        batch = {n.LABEL_QOS: n.BE}, {batch_resource.ANNOTATION_EXTENDED: BATCH}
        parent = f"/kubepods/besteffort/poduid{number}"
        request = container(
            NUMBER, pod_meta=meta, pod_labels=batch[0], pod_annotations=batch[1], pod_cgroup_parent=parent
        )
        pod_request = pod(pod_meta=meta, labels=batch[0], annotations=batch[1], cgroup_parent=parent)
        calls.answer("PreRunPodSandbox", pod_request)
        for stage in ("PreCreateContainer", "PostStartContainer", "PreUpdateContainerResources", "PostStopContainer"):
            calls.answer(stage, request)
        calls.answer("PostStopPodSandbox", pod_request)
    assert calls.apply_again() == 0
    assert set(shared.executor.counts().values()) == {0}
    assert len(shared.history) <= 1024


def test_the_end_of_a_container_does_not_forget_its_successor(root: Root) -> None:
    calls = HookCalls(parts(root))
    calls.answer("PostStartContainer", container("a" * 64))
    calls.answer("PostStartContainer", container(NUMBER))
    calls.answer("PostStopContainer", container("a" * 64))
    assert calls.apply_again() == 1
    calls.answer("PostStopContainer", container(NUMBER))
    assert calls.apply_again() == 0


def test_a_container_that_exited_leaves_no_waiting_write(root: Root) -> None:
    shared = parts(root)
    calls = HookCalls(shared)
    batch = {n.LABEL_QOS: n.BE}, {batch_resource.ANNOTATION_EXTENDED: BATCH}
    calls.answer("PostStartContainer", container("a" * 64, pod_labels=batch[0], pod_annotations=batch[1]))
    assert calls.apply_again() == 1
    assert shared.executor.counts()["waiting writes"] == 0
    account = shared.history.account(UID)
    assert account is not None
    assert {row["outcome"] for row in account["writes"]} == {"gone"}
