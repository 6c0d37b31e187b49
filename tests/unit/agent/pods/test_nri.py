"""Pods from a runtime's NRI events, with every form of cgroup path."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.model import Container, Pod, Resources
from nri.agent.pods.manifest import started_of
from nri.agent.pods.nri import NriPods, api_pod
from nri.agent.pods.running import running
from nri.agent.settings import AgentSettings
from nri.agent.transports.hook_plugin import HookPlugin
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory
from nri.api import messages as m
from nri.errors import NriError
from nri.host import Root, detect
from nri.testing import FakeRuntime
from tests.support import agents
from tests.support.host_trees import write_files

GIB = 1 << 30
SLICE = "kubepods-burstable-poda1_b2.slice"
NESTED = f"kubepods.slice/kubepods-burstable.slice/{SLICE}"
HASH = "0123456789abcdef0123456789abcdef"


def make_source(folder: Path) -> tuple[HookPlugin, NriPods]:
    """The agent's plugin on a machine of 8 GiB, and the pods that follow it."""
    write_files(folder, {"proc/meminfo": f"MemTotal: {8 * GIB >> 10} kB\n"})
    pods = NriPods(AgentSettings(root=folder))
    parts = agents.parts(Root(folder))
    plugin = HookPlugin(replace(parts, pods=pods, profile=replace(parts.profile, hooks=())))
    return plugin, pods


def make_messages(parent: str, path: str, *, kinds: tuple[str, ...] = ()) -> tuple[m.PodSandbox, m.Container]:
    pod = m.PodSandbox(id="s1", uid="a1-b2", name="web", namespace="shop", annotations={"a": "b"})
    pod.linux.cgroup_parent = parent
    for kind in kinds:
        pod.linux.namespaces.add(type=kind)
    container = m.Container(id="c1", pod_sandbox_id="s1", name="app", state=m.ContainerState.CONTAINER_RUNNING)
    container.linux.cgroups_path = path
    resources = container.linux.resources
    resources.cpu.shares.value, resources.cpu.quota.value, resources.cpu.period.value = 512, 75_000, 50_000
    resources.memory.limit.value = GIB
    container.linux.oom_score_adj.value = 876
    return pod, container


@pytest.mark.parametrize(
    ("parent", "path", "folder", "own_part", "kube"),
    [
        ("/kubepods/burstable/poda1-b2", "/kubepods/burstable/poda1-b2/c1",
         "kubepods/burstable/poda1-b2", "kubepods/burstable/poda1-b2/c1", "Burstable"),
        ("/kubepods/besteffort/poda1-b2", "/kubepods/besteffort/poda1-b2/crio-c1",
         "kubepods/besteffort/poda1-b2", "kubepods/besteffort/poda1-b2/crio-c1", "BestEffort"),
        (SLICE, f"{SLICE}:cri-containerd:c1", NESTED, f"{NESTED}/cri-containerd-c1.scope", "Burstable"),
        (f"/{NESTED}", f"{SLICE}:crio:c1", NESTED, f"{NESTED}/crio-c1.scope", "Burstable"),
        (f"kubepods-pod{HASH}.slice", f"kubepods-pod{HASH}.slice:cri-containerd:c1",
         f"kubepods.slice/kubepods-pod{HASH}.slice",
         f"kubepods.slice/kubepods-pod{HASH}.slice/cri-containerd-c1.scope", "Guaranteed"),
    ],
    ids=["cgroupfs", "cgroupfs of CRI-O", "systemd", "systemd of CRI-O", "static pod"],
)  # fmt: skip
def test_every_form_of_path_becomes_the_actual_folder(
    tmp_path: Path, parent: str, path: str, folder: str, own_part: str, kube: str
) -> None:
    plugin, pods = make_source(tmp_path)
    pod, container = make_messages(parent, path)
    with FakeRuntime(pods=[pod], containers=[container]) as runtime:
        runtime.add(plugin)
        (listed_pod,) = running(pods.pods(), detect(Root(tmp_path)), paths.CGROUPFS)
    assert (listed_pod.folder, listed_pod.containers[0].folder) == (folder, own_part)
    assert listed_pod.kube_class == kube


def test_requests_and_limits_are_decoded_from_the_cgroup_values(tmp_path: Path) -> None:
    plugin, pods = make_source(tmp_path)
    pod, container = make_messages("/kubepods/burstable/poda1-b2", "/kubepods/burstable/poda1-b2/c1")
    with FakeRuntime(pods=[pod], containers=[container]) as runtime:
        runtime.add(plugin)
        (actual,) = pods.pods()
    (spec,) = actual["spec"]["containers"]
    assert spec["resources"]["limits"] == {"cpu": "1500m", "memory": str(GIB)}
    assert spec["resources"]["requests"]["cpu"] == "500m"
    requested = int(spec["resources"]["requests"]["memory"])
    assert abs(requested - 8 * GIB * 124 // 1000) <= 8 * GIB // 1000, "right to a thousandth of the node"


def test_without_resources_a_container_has_no_requests() -> None:
    pod = Pod(uid="u", folder="kubepods/besteffort/podu")
    actual = api_pod(pod, [Container(pod, id="containerd://c", name="app")])
    assert actual["spec"]["containers"] == [{"name": "app", "resources": {"requests": {}, "limits": {}}}]
    assert actual["cgroups"] == {}
    assert "cgroupParent" not in api_pod(Pod(uid="u"), [])


@pytest.mark.parametrize(
    ("kinds", "host"), [((), False), (("network", "ipc"), False), (("ipc", "uts"), True)], ids=["unsaid", "own", "host"]
)
def test_a_pod_without_a_network_namespace_has_the_hosts_network(
    tmp_path: Path, kinds: tuple[str, ...], host: bool
) -> None:
    plugin, pods = make_source(tmp_path)
    with FakeRuntime(pods=[make_messages("/kubepods/podu", "", kinds=kinds)[0]]) as runtime:
        runtime.add(plugin)
        assert [pod["spec"]["hostNetwork"] for pod in pods.pods()] == [host]


def test_pods_are_added_and_removed_by_events_of_the_runtime(tmp_path: Path) -> None:
    plugin, pods = make_source(tmp_path)
    pod, container = make_messages("/kubepods/poda1-b2", "/kubepods/poda1-b2/c1")
    assert (pods.synced, pods.problem) == (False, "waiting for the runtime, mode nri")

    def names() -> list[list[str]]:
        return [
            [container_status["name"] for container_status in one["status"]["containerStatuses"]] for one in pods.pods()
        ]

    with FakeRuntime() as runtime:
        runtime.add(plugin)
        assert (pods.synced, pods.problem, names()) == (True, "", [])
        runtime.run_pod_sandbox(pod)
        runtime.create_container(pod, container)
        assert names() == [[]], "a container is there when the runtime has created it"
        runtime.post_create_container(pod, container)
        assert names() == [["app"]]
        before = pods.pods()
        assert before[0] is pods.pods()[0], "a pod that has not changed is the same object"
        runtime.stop_container(pod, container)
        assert names() == [[]]
        runtime.remove_pod_sandbox(pod)
        assert names() == []
    assert pods.synced
    assert "not connected" in pods.problem


def test_a_pods_start_is_that_of_its_first_container_or_its_first_sight(tmp_path: Path) -> None:
    plugin, pods = make_source(tmp_path)
    pod, container = make_messages("/kubepods/poda1-b2", "/kubepods/poda1-b2/c1")
    side, unknown = (m.Container(id=number, pod_sandbox_id="s1", name=number, state=container.state) for number in "ab")
    container.created_at, side.created_at = 1_500_000_000 * 10**9, 1_600_000_000 * 10**9

    def started() -> list[float | None]:
        return [started_of(pod) for pod in pods.pods()]

    with FakeRuntime(pods=[pod], containers=[side, unknown, container]) as runtime:
        runtime.add(plugin)
        assert started() == [1.5e9]
        runtime.stop_container(pod, container)
        assert started() == [1.5e9], "a container that starts again makes no new pod of it"
        runtime.remove_pod_sandbox(pod)
        before = time.time()
        runtime.run_pod_sandbox(pod)
        ((observed,), after) = started(), time.time()
        assert observed is not None and before - 1e-3 <= observed <= after
        runtime.create_container(pod, container)
        runtime.post_create_container(pod, container)
        assert started() == [observed]


def test_subscribers_are_notified_of_changes(tmp_path: Path) -> None:
    pods, inventory, heard = NriPods(AgentSettings(root=tmp_path)), RuntimeInventory(), threading.Event()
    pods.follow(inventory, lambda *_: None)
    pods.subscribe(heard.set)
    pods.start()
    try:
        inventory.put_pod("s1", Pod(uid="u"))
        assert heard.wait(30), "the subscriber was not notified of a new pod"
    finally:
        pods.stop()
    assert [pod["metadata"]["uid"] for pod in pods.pods()] == ["u"]


def test_a_resize_by_the_kubelet_changes_the_limit(tmp_path: Path) -> None:
    plugin, pods = make_source(tmp_path)
    pod, container = make_messages("/kubepods/poda1-b2", "/kubepods/poda1-b2/c1")
    with FakeRuntime(pods=[pod], containers=[container]) as runtime:
        runtime.add(plugin)
        wish = m.LinuxResources()
        wish.cpu.quota.value = 100_000
        runtime.update_container(pod, container, wish)
        limits = pods.pods()[0]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == "2000m", "the quota of now and the period of before"


def test_pods_of_two_runtimes_are_merged(tmp_path: Path) -> None:
    pods, helds = NriPods(AgentSettings(root=tmp_path)), (RuntimeInventory(), RuntimeInventory("proxy"))
    assert not pods.synced, "it follows no inventory"
    for number, stored in enumerate(helds):
        pods.follow(stored, lambda *_: None)
        stored.put_pod(str(number), Pod(uid=str(number)))
        stored.put(f"c{number}", _container(str(number)))
    helds[0].note_problem("")
    assert (pods.synced, pods.problem) == (False, "waiting for the runtime, mode proxy")
    helds[1].note_problem("")
    assert pods.synced
    assert [pod["metadata"]["uid"] for pod in pods.pods()] == ["0", "1"]


def _container(pod_id: str) -> InventoryEntry:

    context = Container(Pod(uid=pod_id), id="containerd://c", name="app", resources=Resources())
    return InventoryEntry(pod_id, context, created=True)


def test_an_eviction_goes_to_the_runtime_of_the_container() -> None:
    pods, collected = NriPods(AgentSettings()), list[tuple[str, str]]()
    inventory = RuntimeInventory()
    pods.follow(inventory, lambda number, reason: collected.append((number, reason)))
    inventory.put("c1", _container("s1"))
    pods.evict("c1", "memory")
    assert collected == [("c1", "memory")]
    with pytest.raises(NriError, match="no runtime has container gone"):
        pods.evict("gone", "memory")
