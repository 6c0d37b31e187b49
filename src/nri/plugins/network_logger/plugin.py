"""`network-logger`: logs the network namespace and the addresses of pods as they start, stop and are removed.

One job: the lines. They read as those of the Go plugin of this name, with the pod at the end as in each plugin's log.
Rules: runtimes report a pod that is removed, and some of one that stops, without its network namespace, which is gone
by then; the line has the one that the pod had.
"""

from __future__ import annotations

import nri

__all__ = ["NetworkLogger"]

#: For a pod that has no network namespace of its own.
HOST_NETWORK = "<host-network>"


class NetworkLogger(nri.Plugin):
    """Log the network namespace and the addresses of each pod. Changes nothing."""

    name = "network-logger"
    sets = ()

    def __init__(self) -> None:
        #: Pod -> its network namespace, until it is removed.
        self.namespaces: dict[str, str] = {}

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.namespaces.clear()
        self.log.info("Synchronized state with the runtime (%d pods, %d containers)...", len(pods), len(containers))
        for pod in pods:
            self.log.info("%s", self._line("pod", pod))

    def shutdown(self) -> None:
        self.log.info("Runtime shutting down...")

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.log.info("%s", self._line("Started pod", pod))

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.log.info("%s", self._line("Stopped pod", pod))

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.log.info("%s", self._line("Removed pod", pod))
        self.namespaces.pop(pod.id, None)

    def _line(self, event: str, pod: nri.PodSandbox) -> str:
        """The line for an event of a pod: its network namespace and its addresses."""
        path = next((row.path for row in pod.linux.namespaces if row.type == "network"), "")
        namespace = path or self.namespaces.get(pod.id, HOST_NETWORK)
        self.namespaces[pod.id] = namespace
        return f"{event} {pod.namespace}/{pod.name}: namespace={namespace} ips=[{' '.join(pod.ips)}]"


if __name__ == "__main__":
    NetworkLogger.main()
