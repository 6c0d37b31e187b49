"""The pods and containers of an engine, in memory as on disk.

One job: :class:`Lives`, the tables, through which every change of a record goes. Rules: a change is written before it
counts, or nothing is changed; what a machine's sudden end must not lose is on the disk: that pods and containers are
there. Three kinds of locks, always taken in this order: a pod's or container's `life` (one
request at a time changes it), then `write` (its record, for the moment of a change; nothing is waited for inside), and
the tables' own. So an update that a plugin wants of another container needs `write` alone and waits for no request.
Next: :mod:`nri.engine.lifecycle.status`.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from nri.engine.state import ContainerRecord, ContainerState, Ids, Names, PodRecord, PodState, Store
from nri.engine.state.tables import next_container_state, next_pod_state
from nri.engine.support.errors import EngineError, NotThere
from nri.engine.support.files import write_whole

__all__ = ["ContainerLife", "Lives", "PodLife", "to_json"]

_log = logging.getLogger(__name__)

#: So much of an id is shown to people, as `nri ps` does.
_SHORT = 13


def to_json(message: Any) -> dict[str, Any]:
    """A message of the CRI as the record keeps it."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


class PodLife:
    """A pod: its record, and the configuration in it as a message."""

    def __init__(self, record: PodRecord) -> None:
        self.record = record
        self.config = json_format.ParseDict(record.config, pb.PodSandboxConfig(), ignore_unknown_fields=True)
        self.life = threading.RLock()
        self.write = threading.RLock()

    @property
    def id(self) -> str:
        """The pod's id."""
        return self.record.id

    def __str__(self) -> str:
        """As the log has it: `pod 1f2e3d4c5b6a7 default/web`."""
        return f"pod {self.id[:_SHORT]} {self.record.namespace}/{self.config.metadata.name}"


class ContainerLife:
    """A container: its record, its configuration as a message, and the OCI spec in force.

    Attributes:
        exited: its process is gone.
        ended: its end is taken up: recorded, and told to plugins.
        starting: held during a start, and to take up an end: that of a program that is over at once comes after it.
        answers: by the name of a resource, which answer of a plugin it was last set by (`EventReply.order_of`).
    """

    def __init__(self, record: ContainerRecord, spec: dict[str, Any]) -> None:
        self.record = record
        self.config = json_format.ParseDict(record.config, pb.ContainerConfig(), ignore_unknown_fields=True)
        self.spec = spec
        self.life = threading.RLock()
        self.write = threading.RLock()
        self.exited = threading.Event()
        self.ended = threading.Event()
        self.starting = threading.RLock()
        self.answers: dict[str, int] = {}

    @property
    def id(self) -> str:
        """The container's id."""
        return self.record.id

    def __str__(self) -> str:
        """As the log has it: `container 1f2e3d4c5b6a7 default/web/app`."""
        name = self.config.metadata.name
        pod, namespace, *_ = [*self.record.name.removeprefix(f"{name}_").rsplit("_", 4), ""]  # `names.container_name`
        return f"container {self.id[:_SHORT]} {namespace}/{pod}/{name}"


Life = PodLife | ContainerLife


class Lives:
    """All pods and containers, by id."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pod_names, self.container_names = Names("pod"), Names("container")
        self._pod_ids, self._container_ids = Ids("pod"), Ids("container")
        self._pods: dict[str, PodLife] = {}
        self._containers: dict[str, ContainerLife] = {}
        self._lock = threading.Lock()

    # --- finding ---

    def pod(self, prefix: str) -> PodLife:
        """The pod of an id or its beginning. Raises NotThere, also for one that is still being made."""
        return self._pod(self._pod_ids.resolve(prefix), prefix)

    def _pod(self, identity: str, asked: str) -> PodLife:
        with self._lock:
            found = self._pods.get(identity)
        if found is None or found.record.state is PodState.CREATING:
            raise NotThere("pod", asked)
        return found

    def container(self, prefix: str) -> ContainerLife:
        """The container of an id or its beginning. Raises NotThere, also for one that is still being made."""
        identity = self._container_ids.resolve(prefix)
        with self._lock:
            found = self._containers.get(identity)
        if found is None or found.record.state is ContainerState.CREATING:
            raise NotThere("container", prefix)
        return found

    def pods(self) -> list[PodLife]:
        """All pods that are made, the oldest first."""
        with self._lock:
            found = [*self._pods.values()]
        return [each for each in found if each.record.state is not PodState.CREATING]

    def containers(self, pod_id: str = "") -> list[ContainerLife]:
        """All containers that are made, or those of one pod, the oldest first."""
        with self._lock:
            found = [*self._containers.values()]
        return [
            each for each in found
            if each.record.state is not ContainerState.CREATING and pod_id in ("", each.record.pod_id)
        ]  # fmt: skip

    # --- changing ---

    def add(self, life: Life) -> None:
        """Take in a pod or container that is about to be made, with its name; its record is on the disk then.

        Raises AlreadyThere if another one has the name.
        """
        self._names(life).reserve(life.record.name, life.id)
        self.put(life)
        self._enter(life)

    def take_in(self, life: Life) -> None:
        """Take in a pod or container that the disk has. Raises AlreadyThere if another one has its name."""
        self._names(life).reserve(life.record.name, life.id)
        self._enter(life)

    def _names(self, life: Life) -> Names:
        return self.pod_names if isinstance(life, PodLife) else self.container_names

    def _enter(self, life: Life) -> None:
        with self._lock:
            if isinstance(life, PodLife):
                self._pods[life.id] = life
            else:
                self._containers[life.id] = life
        (self._pod_ids if isinstance(life, PodLife) else self._container_ids).add(life.id)

    def drop(self, life: Life) -> None:
        """Forget a pod or container, on the disk as well; its name is free then."""
        try:
            self.store.remove(life.id, sync=False)
        except OSError as error:
            raise EngineError(f"the record of {life.id} cannot be removed: {error}") from error
        pod = isinstance(life, PodLife)
        (self._pod_ids if pod else self._container_ids).discard(life.id)
        with self._lock:
            (self._pods if pod else self._containers).pop(life.id, None)
        self._names(life).release(life.id)

    def put(self, life: Life, *, sync: bool = False, **changes: Any) -> None:
        """Change fields of a record, written first. Raises EngineError, and changes nothing, if that fails.

        With `sync` also the machine's sudden end does not lose it.
        """
        with life.write:
            before = {name: getattr(life.record, name) for name in changes}
            _set(life, changes)
            try:
                self.store.put(life.record, sync=sync)
            except OSError as error:
                _set(life, before)
                raise EngineError(f"the record of {life.id} cannot be written: {error}") from error

    def note(self, life: Life, **changes: Any) -> None:
        """Change fields for what has happened anyhow: a disk that does not take it is only told of."""
        try:
            self.put(life, **changes)
        except EngineError as error:
            _log.warning("%s; the restarted engine will have to find out", error)
            with life.write:
                _set(life, changes)

    def move_pod(self, life: PodLife, step: str, *, sync: bool = False, **changes: Any) -> None:
        """Go on to the state after a step. Raises WrongState where the step may not begin."""
        with life.write:
            self.put(life, sync=sync, state=next_pod_state(life.id, life.record.state, step), **changes)

    def move_container(self, life: ContainerLife, step: str, *, sync: bool = False, **changes: Any) -> None:
        """Go on to the state after a step. Raises WrongState where the step may not begin."""
        with life.write:
            self.put(life, sync=sync, state=next_container_state(life.id, life.record.state, step), **changes)


def write_spec(bundle: Path, spec: dict[str, Any]) -> None:
    """Put a spec into force, for the OCI runtime and for the engine's restart. Raises OSError."""
    write_whole(bundle / "config.json", json.dumps(spec).encode(), sync=False)


def read_spec(bundle: str) -> dict[str, Any]:
    """The spec of a bundle; {} if it is gone, with the machine's restart."""
    try:
        found = json.loads((Path(bundle) / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _set(life: Life, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(life.record, name, value)
