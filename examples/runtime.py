"""A container runtime with NRI in it, in one file. It "runs" containers by remembering them.

    python examples/runtime.py /tmp/nri.sock          # then start any NRI plugin with that socket

Three calls put NRI in: `Adaptation(...)`, `start()`, and one method per event around what the runtime does anyway.
"""

import sys

from nri.adaptation import Adaptation
from nri.api import messages as m
from nri.errors import NriError


class Runtime:
    def __init__(self, socket_path: str) -> None:
        self.pods: dict[str, m.PodSandbox] = {}
        self.containers: dict[str, m.Container] = {}
        self.nri = Adaptation(
            "example", "v1.0.0", synchronize=self.state, update=self.update, evict=self.evict, socket_path=socket_path
        )
        self.nri.start()

    def state(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """A plugin joins: everything there is, now."""
        return list(self.pods.values()), list(self.containers.values())

    def update(self, updates: list[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        """Apply updates; return those that failed."""
        failed = [update for update in updates if update.container_id not in self.containers]
        for update in updates:
            if update.container_id in self.containers:
                self.containers[update.container_id].linux.resources.MergeFrom(update.linux.resources)
        return failed

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        for eviction in evictions:
            print(f"asked to evict {eviction.container_id}: {eviction.reason}")

    def run_pod(self, pod: m.PodSandbox) -> None:
        with self.nri.block_sync():  # no plugin joins in the middle of a request
            self.nri.run_pod_sandbox(pod)
            self.pods[pod.id] = pod

    def run_container(self, pod: m.PodSandbox, container: m.Container) -> m.ContainerAdjustment:
        with self.nri.block_sync():
            reply = self.nri.create_container(pod, container)
            try:
                self.containers[container.id] = container  # here a real runtime makes config.json of reply.adjust
                self.update(reply.updates)
                self.nri.start_container(pod, container)
            except NriError:
                self.containers.pop(container.id, None)
                reply.abort()  # other containers get back what they had
                raise
            reply.commit()
            self.nri.post_start_container(pod, container)
            return reply.adjust


if __name__ == "__main__":
    runtime = Runtime(sys.argv[1])
    pod = m.PodSandbox(id="pod1", name="web", namespace="default")
    runtime.run_pod(pod)
    for number, _ in enumerate(sys.stdin):  # one container per line that is typed
        try:
            print(runtime.run_container(pod, m.Container(id=f"ctr{number}", pod_sandbox_id="pod1", name="app")))
        except NriError as error:
            print(f"refused: {error}")
    runtime.nri.stop()
