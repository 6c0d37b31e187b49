"""The first work of a restarted engine, with what it finds: records, processes, mounts.

Rules: what runs runs on; what was half made is taken back; what has ended meanwhile goes through the same door as every
end; after a restart of the machine all has ended. What cannot be taken back is told and left for the next removal.
Next:
:mod:`nri.engine.lifecycle.sweep`.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from nri.engine.lifecycle.creation import Creation
from nri.engine.lifecycle.ends import Ends
from nri.engine.lifecycle.lives import ContainerLife, Lives, PodLife, read_spec
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.parts.undo import take_back
from nri.engine.lifecycle.pod_steps import PodSteps
from nri.engine.lifecycle.sweep import sweep
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.engine.support.command import end_left
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import is_mount_point

__all__ = ["Replay"]

_log = logging.getLogger(__name__)
_UNKNOWN_CODE = 255


class Replay:
    """Takes up the records of an earlier life. `complaints` says what was not as it should be."""

    def __init__(self, lives: Lives, machinery: Machinery, steps: PodSteps, creation: Creation, ends: Ends) -> None:
        self._lives, self._machinery, self._steps = lives, machinery, steps
        self._creation, self._ends = creation, ends
        self.complaints: list[str] = []

    def records(self) -> None:
        """Take in what the disk says, and take back what was half made. Before plugins can connect."""
        loaded = self._lives.store.load()
        self.complaints += loaded.complaints
        for pod in sorted(loaded.pods.values(), key=lambda record: record.created_at_ns):
            self._pod(pod)
        for container in sorted(loaded.containers.values(), key=lambda record: record.created_at_ns):
            self._container(container, loaded.pods)
        if not loaded.complaints:
            self.complaints += sweep(self._machinery, {*loaded.pods, *loaded.containers})
        for line in self.complaints:
            _log.warning("%s", line)

    def ends(self) -> None:
        """Watch what runs, and take up what has ended. When plugins can connect."""
        for life in self._lives.containers():
            if life.record.state is ContainerState.EXITED:
                self._ends.later(life)
            elif life.record.state is not ContainerState.REMOVING:
                self._ends.watch(life)
        for pod in self._lives.pods():
            if pod.record.bundle and pod.record.state is PodState.READY:
                self._ends.watch(pod)

    # --- pods ---

    def _pod(self, record: PodRecord) -> None:
        life = PodLife(record)
        if record.state is PodState.CREATING:
            self._take_back_pod(life)
            return
        if record.state is PodState.READY and not self._there(record):
            # The machine was started anew: no namespace is there. Its stop tells plugins and gives the network back.
            record.state = PodState.STOPPING
        self._lives.take_in(life)

    def _take_back_pod(self, life: PodLife) -> None:
        self._end_left(life, f"CNI_CONTAINERID={life.id}")
        complaints = take_back(self._steps.of(life))
        self.complaints += [f"pod {life.id}, half made: {each}" for each in complaints]
        if not complaints:
            self._lives.drop(life)  # else the next start tries again

    def _there(self, record: PodRecord) -> bool:
        folder = self._machinery.places.pod(record.id)
        return folder.exists() and all(is_mount_point(Path(path)) for path in record.namespace_paths.values())

    # --- containers ---

    def _container(self, record: ContainerRecord, pods: dict[str, PodRecord]) -> None:
        life = ContainerLife(record, read_spec(record.bundle))
        if record.pod_id not in pods and self.complaints:
            # Its pod may be among the records that were set aside: nothing that runs is ended for that.
            self.complaints.append(f"container {life.id} is left alone: there is no record of its pod {record.pod_id}")
            return
        if record.state is ContainerState.CREATING or record.pod_id not in pods:
            self._take_back_container(life)
            return
        if record.state is ContainerState.STARTING and not self._waits(record):
            record.state, record.started_at_ns = ContainerState.RUNNING, record.started_at_ns or time.time_ns()
        elif record.state is ContainerState.STARTING:
            record.state = ContainerState.CREATED
        if record.state is ContainerState.REMOVING:
            life.exited.set()
            life.ended.set()
        self._lives.take_in(life)

    def _waits(self, record: ContainerRecord) -> bool:
        """Whether a container that was being started still waits for its start."""
        try:
            return self._machinery.runtime(record.runtime_handler).state(record.id).status == "created"
        except EngineError:
            return False  # it has ended, or its runtime is gone: its end will be taken up

    def _take_back_container(self, life: ContainerLife) -> None:
        self._end_left(life)
        try:
            self._creation.dismantle(life)
        except (EngineError, OSError) as error:
            self.complaints.append(f"container {life.id}, half made: {error}")
        else:
            self._lives.drop(life)

    def _end_left(self, life: PodLife | ContainerLife, variable: str = "") -> None:
        """End the programs that were making it when the engine was killed: else they go on while it is taken back."""
        if not self._machinery.dry:
            end_left(self._machinery.places.bundle(life.id), variable)
