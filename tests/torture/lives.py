"""The events of the node: threads of a runtime that start and stop pods, and note what each event came to.

Half of the threads hold `block_sync` around each request, as a runtime should; the others do without.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from nri.api import messages as m
from nri.errors import NriError
from tests.torture.healthy import INDICES, VARIABLE

if TYPE_CHECKING:
    from tests.torture.node import Node

#: Between two events of a thread, in seconds.
PAUSE_S = 0.002


class Events:
    """One thread of a runtime: pods with one container each, one after the other."""

    def __init__(self, node: Node, number: int) -> None:
        self._node, self._number = node, number
        self.stopping = False
        #: Event, pod, seconds, error or "".
        self.record: list[tuple[str, str, float, str]] = []
        self.thread = threading.Thread(target=self._run, name=f"events-{number}", daemon=True)

    def _run(self) -> None:
        life = 0
        while not self.stopping:
            life += 1
            self._live(f"{self._node.rounds}-{self._number}-{life}")

    def _live(self, life: str) -> None:
        annotations = {"torture/life": life, **self._node.options.annotations}
        pod = m.PodSandbox(id=f"life-{life}", name=life, namespace="torture", annotations=annotations)
        container = m.Container(id=f"c-{life}", pod_sandbox_id=pod.id, name="main", args=["sleep", "1"], env=["A=b"])
        if self._ask("RunPodSandbox", pod) and self._ask("CreateContainer", pod, container):
            for rpc in ("PostCreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer"):
                self._ask(rpc, pod, container)
            self._ask("StopContainer", pod, container)
            self._ask("RemoveContainer", pod, container)
        self._ask("StopPodSandbox", pod)
        self._ask("RemovePodSandbox", pod)

    def _ask(self, rpc: str, pod: m.PodSandbox, container: m.Container | None = None) -> bool:
        """Ask for one event, timed from the runtime's first call to the last answer."""
        time.sleep(PAUSE_S)
        began = time.monotonic()
        error = ""
        try:
            if self._number % 2:
                with self._node.adaptation.block_sync(urgent=rpc.startswith(("Stop", "Remove"))):
                    error = self._send(rpc, pod, container)
            else:
                error = self._send(rpc, pod, container)
        except NriError as wrong:
            error = str(wrong)[:500] or repr(wrong)
        except Exception as wrong:
            error = f"not an error of NRI: {wrong!r}"[:500]
        self.record.append((rpc, pod.id, time.monotonic() - began, error))
        return not error

    def _send(self, rpc: str, pod: m.PodSandbox, container: m.Container | None) -> str:
        adaptation = self._node.adaptation
        if container is None:
            {
                "RunPodSandbox": adaptation.run_pod_sandbox,
                "StopPodSandbox": adaptation.stop_pod_sandbox,
                "RemovePodSandbox": adaptation.remove_pod_sandbox,
            }[rpc](pod)
        elif rpc == "CreateContainer":
            reply = adaptation.create_container(pod, container)
            reply.commit()
            set_ = {pair.key for pair in reply.adjust.env}
            missing = [index for index in INDICES if VARIABLE + index not in set_]
            return f"the adjustments of {missing} are lost" if missing else ""
        elif rpc == "UpdateContainer":
            resources = m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=512)))
            adaptation.update_container(pod, container, resources).commit()
        elif rpc == "StopContainer":
            adaptation.stop_container(pod, container).commit()
        else:
            {
                "PostCreateContainer": adaptation.post_create_container,
                "StartContainer": adaptation.start_container,
                "PostStartContainer": adaptation.post_start_container,
                "RemoveContainer": adaptation.remove_container,
            }[rpc](pod, container)
        return ""
