"""The plugin behind the proxy: folders and names of containers, and values without a field in the request."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.transports.proxy_plugin import ProxyPlugin
from nri.api import messages as m
from nri.proxy.adjust import CLEAR_CPUS
from nri.proxy.events.views import RUNTIME_ID
from tests.support import agents
from tests.support.agents import POD, TOPOLOGY, UID
from tests.support.host_trees import v1

LS = {"koordinator.sh/qosClass": "LS"}


def plugin(folder: Path, name: str = "containerd") -> ProxyPlugin:
    parts = agents.parts(v1(folder, POD, f"{POD}/runtime1"), rules={"NodeResourceTopology": TOPOLOGY})
    return ProxyPlugin(parts, lambda: name, lambda _: None)


def pod(labels: dict[str, str] | None = None, parent: str = f"/{POD}") -> m.PodSandbox:
    pod_sandbox = m.PodSandbox(id="p", name="web", namespace="shop", uid=UID, labels=labels or {})
    pod_sandbox.linux.cgroup_parent = parent
    return pod_sandbox


def container(runtime_id: str = "") -> m.Container:
    container = m.Container(id="proxy1", name="app", pod_sandbox_id="p", state=m.ContainerState.CONTAINER_RUNNING)
    if runtime_id:
        container.annotations[RUNTIME_ID] = runtime_id
    return container


def folder_of(plugin: ProxyPlugin, sandbox: m.PodSandbox, created: m.Container) -> str:
    """The folder of a container that the plugin has met when it started."""
    plugin.start_container(sandbox, created)
    known_entry = plugin.held.container("proxy1")
    assert known_entry is not None
    return known_entry.context.folder


SLICE = "kubepods.slice/kubepods-pod1.slice"


@pytest.mark.parametrize(
    ("runtime", "parent", "path"),
    [
        ("containerd", f"/{POD}", f"{POD}/runtime1"),
        ("containerd", f"/{SLICE}", f"{SLICE}/cri-containerd-runtime1.scope"),
        ("cri-o", f"/{SLICE}", f"{SLICE}/crio-runtime1.scope"),
        ("", f"/{SLICE}", f"{SLICE}/cri-containerd-runtime1.scope"),
        ("iSulad", f"/{SLICE}", f"{SLICE}/isulad-runtime1.scope"),
        ("unheard-of", f"/{SLICE}", f"{SLICE}/cri-containerd-runtime1.scope"),
    ],
)
def test_the_folder_of_a_container_follows_from_its_pod_runtime_and_id(
    tmp_path: Path, runtime: str, parent: str, path: str
) -> None:
    assert folder_of(plugin(tmp_path, runtime), pod(parent=parent), container("runtime1")) == path


def test_a_folder_reported_by_the_runtime_is_used(tmp_path: Path) -> None:
    created = container("runtime1")
    created.linux.cgroups_path = "/elsewhere"
    assert folder_of(plugin(tmp_path), pod(), created) == "elsewhere"


def test_an_explicit_clear_is_sent_as_an_annotation(tmp_path: Path) -> None:
    best_effort = pod(parent=f"/{POD.replace('burstable', 'besteffort')}")
    created, _ = plugin(tmp_path).create_container(best_effort, container())
    assert created is not None
    assert created.message.annotations[CLEAR_CPUS] == "yes"
    shared, _ = plugin(tmp_path / "b").create_container(pod(LS), container())
    assert shared is not None
    assert shared.message.linux.resources.cpu.cpus == "0-3"
    assert CLEAR_CPUS not in shared.message.annotations


def test_a_container_has_its_folder_as_soon_as_it_has_its_id(tmp_path: Path) -> None:
    created = plugin(tmp_path)
    created.create_container(pod(LS), container())
    created.post_create_container(pod(LS), container("runtime1"))
    known_entry = created.held.container("proxy1")
    assert known_entry is not None
    assert known_entry.context.folder == f"{POD}/runtime1"
    created.post_start_container(pod(LS), container("runtime1"))
    created.post_start_container(pod(LS), m.Container(id="unknown"))
    assert known_entry.created


def test_a_container_created_around_the_proxy_is_decided_at_its_start(tmp_path: Path) -> None:
    created = plugin(tmp_path)
    created.start_container(pod(LS), container("runtime1"))
    known_entry = created.held.container("proxy1")
    assert known_entry is not None
    assert known_entry.changes is not None
    assert known_entry.changes.knobs.get("cpuset.cpus") == "0-3"


def test_containers_without_a_request_are_ignored(tmp_path: Path) -> None:
    created = plugin(tmp_path)
    created.post_create_container(pod(LS), container("runtime1"))
    assert created.held.container("proxy1") is None
    created.synchronize([], [container("runtime1")])
    assert created.held.container("proxy1") is None
