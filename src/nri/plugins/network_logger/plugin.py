"""`network-logger`: log the network namespace and the addresses of pods when they start, stop and are removed."""

from __future__ import annotations

import nri

#: The namespace in the log for a pod on the host's network.
HOST_NETWORK = "<host-network>"


class NetworkLogger(nri.Plugin):
    """Log the network namespace and the addresses of each pod."""

    name = "network-logger"
    sets = ()

    def __init__(self) -> None:
        #: The network namespace of each pod, because events of stopped and removed pods may lack it.
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
        """The line for an event of a pod, in the words of the Go plugin of this name."""
        path = next((row.path for row in pod.linux.namespaces if row.type == "network"), "")
        namespace = path or self.namespaces.get(pod.id, HOST_NETWORK)
        self.namespaces[pod.id] = namespace
        return f"{event} {pod.namespace}/{pod.name}: namespace={namespace} ips=[{' '.join(pod.ips)}]"


if __name__ == "__main__":
    NetworkLogger.main()
