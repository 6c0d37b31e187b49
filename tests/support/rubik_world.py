"""A machine of files under rubik's profile: pods that are online or offline, its configuration, and its services.

Rules: pods are those of a runtime that runs them with a CPU limit; what a service writes is read back from the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nri.agent.rubik import PROFILE
from nri.agent.rubik.pods import PREEMPTIBLE
from nri.agent.rubik.settings import KIND
from nri.agent.settings.values import AgentSettings, LoopSettings, PodSettings
from nri.agent.transports.hook_plugin import HookPlugin
from nri.host import Root
from nri.kube.cgroup_limits import quota_us
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.host_trees import TOP
from tests.support.loop_world import LoopWorld

__all__ = ["RubikWorld", "create_container", "pod", "run_pod"]

Json = dict[str, Any]
OFFLINE = {PREEMPTIBLE: "true"}


def pod(
    name: str, *, offline: bool = False, cpu: str = "", kube: str = "Burstable", namespace: str = "shop", **words: str
) -> Json:
    """A pod with one container; `words` are annotations of volcano.sh, with _ for -."""
    annotations = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in words.items()}
    limits = {"cpu": cpu} if cpu else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {},
            "annotations": {**annotations, **(OFFLINE if offline else {})},
        },
        "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]},
        "status": {
            "phase": "Running",
            "qosClass": kube,
            "containerStatuses": [{"name": "app", "containerID": f"containerd://{name}c", "state": {"running": {}}}],
        },
    }


class RubikWorld(LoopWorld):
    """The machine with services that are on, each with its block.

    Args:
        folder: an empty one.
        pods: those that run; each container has the quota of its limit.
        cpus: how many.
        preview: services that only say what they would do.
        source: of the pods.
        after: rounds above a threshold before an eviction.
        blocks: of the services that are on.
    """

    profile = PROFILE

    def __init__(
        self,
        folder: Path,
        *pods: Json,
        cpus: int = 8,
        preview: tuple[str, ...] = (),
        after: int = 1,
        source: str = "cri",
        **blocks: Any,
    ) -> None:
        gates = {row.name: True for row in PROFILE.strategies if row.name in blocks}
        settings = AgentSettings(
            profile="rubik",
            gates=gates,
            preview=preview,
            loops=LoopSettings(evict_after=after),
            pods=PodSettings(source=source),  # type: ignore[arg-type]
        )
        base = PROFILE.node(settings, Root(folder))
        super().__init__(folder, None, cpus, base, settings=settings)
        self.configure(**blocks)
        self.run(*pods)

    def configure(self, **blocks: Any) -> None:
        """Give the node another configuration file, which switches these services on."""
        document = {"agent": {"enabledFeatures": list(blocks)}, **json.loads(json.dumps(blocks))}
        self.store.put(KIND, document, "config.json")

    def run(self, *pods: Json) -> None:
        """Have these pods run, and no others; new ones get cgroups."""
        for pod in pods:
            folder = self.folder_of(pod)
            if not (self.folder / TOP / "memory" / folder).exists():
                self.pod(pod)
                limit = pod["spec"]["containers"][0]["resources"]["limits"].get("cpu")
                quota = str(quota_us(round(float(limit) * 1000))) if limit else "-1"
                for path in (folder, self.app(pod)):
                    self.overwrite(path, "cpu.cfs_quota_us", quota)
        self.source.replace(list(pods))

    def folder_of(self, document: Json) -> str:
        """A pod's cgroup."""
        kube = {"Burstable": "/burstable", "BestEffort": "/besteffort"}.get(document["status"]["qosClass"], "")
        return f"kubepods{kube}/pod{document['metadata']['uid']}"

    def app(self, document: Json) -> str:
        """The cgroup of a pod's container."""
        return f"{self.folder_of(document)}/{document['metadata']['name']}c"

    def quota(self, path: str) -> int:
        """The CPU quota of a cgroup."""
        return int(self.text(path, "cpu.cfs_quota_us"))

    def use_memory(self, path: str, size: int) -> None:
        """Have a cgroup use memory."""
        self.overwrite(path, "memory.usage_in_bytes", str(size))


def create_container(world: RubikWorld, quota: int, **words: str) -> None:
    """Have a runtime create and start a container whose pod has these annotations; its cgroup is there by then."""
    pod = make_pod(name="a", uid="u", annotations={f"volcano.sh/{k.replace('_', '-')}": v for k, v in words.items()})
    pod.linux.cgroup_parent = "/kubepods/burstable/podu"
    plugin = HookPlugin(world.parts)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.run_pod_sandbox(pod)
        container = make_container(name="app", id="c", pod_sandbox_id=pod.id)
        container.linux.cgroups_path = "/kubepods/burstable/podu/c"
        container.linux.resources.cpu.quota.value = quota
        container.linux.resources.cpu.period.value = 100_000
        reply = runtime.create_container(pod, container)
        assert not reply.owners.owners, "on cgroup v1 a runtime has no word for it"
        world.cgroup("kubepods/burstable/podu")
        world.cgroup("kubepods/burstable/podu/c")
        runtime.start_container(pod, container)


def run_pod(world: RubikWorld, name: str, offline: bool) -> str:
    """Have a runtime run a pod in a cgroup that is there before; no service has a round."""
    path = f"kubepods/burstable/pod{name}"
    world.cgroup(path)
    pod = make_pod(name=name, uid=name, annotations={"volcano.sh/preemptable": str(offline).lower()})
    pod.linux.cgroup_parent = f"/{path}"
    with FakeRuntime() as runtime:
        runtime.add(HookPlugin(world.parts))
        runtime.run_pod_sandbox(pod)
    return path
