"""The plugin of these tests: prints what it gets as JSON lines, and does what pods' annotations ask for.

Annotations of a pod:
    test/adjust      name of a case in nri.conformance.fields: what to answer to CreateContainer
    test/set         JSON {SETTER: VALUE}: the same by setters, as tests/real/controls.py calls them
    test/fail        "EVENT [PLUGIN]": the handler of that event raises, in the plugin of that name or in all
    test/delay       "EVENT SECONDS": the handler of that event is late
    test/update      JSON {"on": EVENT, "container": NAME, "set": {SETTER: VALUE}}: an update to return at that event

Lines on stdin are JSON {"container": ID, "set": {SETTER: VALUE}}: updates to ask for unsolicited.
The environment variable TEST_POLICY holds a failure policy as JSON. The configuration may name a file for the lines.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from google.protobuf.json_format import MessageToDict

import nri
from nri.conformance.fields import CASES
from tests.real.controls import call

# As it was at the start: the library takes the connection's number out of the environment.
ENVIRON = {key: value for key, value in os.environ.items() if key.startswith("NRI_")}

NAME = sys.argv[sys.argv.index("--name") + 1] if "--name" in sys.argv else ""


class Recorder(nri.Plugin):
    """Records everything; its answers are the pods' own wishes."""

    class Config:
        """What a drop-in file may say."""

        log: str = ""

    config: Config

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self._listening = False

    # -- what it writes -----------------------------------------------------------------------------------------------

    def emit(self, event: str, **fields: Any) -> None:
        """Write one line."""
        line = json.dumps({"event": event, **fields})
        if not self.config.log:
            print(line, flush=True)
            return
        with Path(self.config.log).open("a") as log:
            print(line, file=log)

    def seen(self, event: str, pod: nri.PodSandbox, container: nri.Container | None = None, **more: Any) -> None:
        """Write what came, then fail or be late if the pod wants that."""
        fields: dict[str, Any] = {"pod": pod.name, "pod_id": pod.id, "ips": list(pod.ips), **more}
        if container is not None:
            self._ids[pod.id, container.name] = container.id
            fields |= {"container": container.name, "id": container.id, "message": MessageToDict(container)}
        self.emit(event, **fields)
        late, _, seconds = pod.annotations.get("test/delay", "").partition(" ")
        if late == event:
            time.sleep(float(seconds))
            self.emit("Awake", pod=pod.name)
        failing, _, plugin = pod.annotations.get("test/fail", "").partition(" ")
        if failing == event and plugin in ("", NAME):
            raise RuntimeError(f"asked to fail at {event}")

    def updates(self, event: str, pod: nri.PodSandbox, itself: str = "") -> list[nri.Update]:
        """The update that the pod wants returned at this event; not of the container that is being created."""
        wish = json.loads(pod.annotations.get("test/update", "{}"))
        target = self._ids.get((pod.id, wish.get("container", "")))
        return [make_update(target, wish["set"])] if wish.get("on") == event and target not in (None, itself) else []

    def listen(self) -> None:
        """Ask for the updates that come on stdin."""
        for line in sys.stdin:
            command = json.loads(line)
            try:
                failed = self.runtime.update(make_update(command["container"], command["set"])).result()
                self.emit("Updated", failed=[update.container_id for update in failed], error="")
            except nri.NriError as error:
                self.emit("Updated", failed=[], error=str(error))

    # -- the connection -----------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Say who the runtime is, and how this process was started."""
        runtime = self.runtime
        self.emit(
            "Configure",
            runtime=runtime.name,
            version=runtime.version,
            nri_version=runtime.nri_version,
            request_timeout_s=runtime.request_timeout_s,
            pid=os.getpid(),
            environ=ENVIRON,
        )

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> list[nri.Update]:
        """Remember and report everything that runs already."""
        for container in containers:
            self._ids[container.pod_sandbox_id, container.name] = container.id
        self.emit(
            "Synchronize",
            pods=sorted(pod.name for pod in pods),
            containers=sorted(container.name for container in containers),
            ids=len({container.id for container in containers}),
        )
        if not self._listening and not self.config.log:
            self._listening = True
            threading.Thread(target=self.listen, daemon=True).start()
        return [update for pod in pods for update in self.updates("Synchronize", pod)]

    def closed(self) -> None:
        """Say that the connection is gone."""
        self.emit("Closed")

    # -- the events ---------------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.seen("RunPodSandbox", pod)

    def update_pod_sandbox(
        self, pod: nri.PodSandbox, overhead: nri.LinuxResources, resources: nri.LinuxResources
    ) -> None:
        self.seen("UpdatePodSandbox", pod, shares=resources.cpu.shares.value)

    def post_update_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.seen("PostUpdatePodSandbox", pod)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.seen("StopPodSandbox", pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.seen("RemovePodSandbox", pod)

    def create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> tuple[nri.Adjustment | None, list[nri.Update]]:
        self.seen("CreateContainer", pod, container)
        name, wish = pod.annotations.get("test/adjust"), json.loads(pod.annotations.get("test/set", "{}"))
        adjustment = CASES[name].adjust(pod) if name else nri.Adjustment() if wish else None
        return call(adjustment, wish), self.updates("CreateContainer", pod, container.id)

    def validate_container_adjustment(self, request: nri.ValidateContainerAdjustmentRequest) -> None:
        self.seen("ValidateContainerAdjustment", request.pod, request.container)

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen("PostCreateContainer", pod, container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen("StartContainer", pod, container)

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen("PostStartContainer", pod, container)

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> list[nri.Update]:
        self.seen("UpdateContainer", pod, container, shares=resources.cpu.shares.value)
        return self.updates("UpdateContainer", pod)

    def post_update_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen("PostUpdateContainer", pod, container)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update]:
        self.seen("StopContainer", pod, container)
        return self.updates("StopContainer", pod)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen("RemoveContainer", pod, container)


def make_update(container_id: str, setters: dict[str, Any]) -> nri.Update:
    """An update by the names of its setters."""
    update: nri.Update = call(nri.Update(container_id), setters)
    return update


if __name__ == "__main__":
    if "TEST_POLICY" in os.environ:
        Recorder.failure_policy = nri.FailurePolicy(**json.loads(os.environ["TEST_POLICY"]))
    Recorder.main()
