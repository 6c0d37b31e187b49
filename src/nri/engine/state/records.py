"""The engine's records of pods and containers: plain values, and messages of the CRI as JSON.

Unknown keys of a newer version are kept and written again, so that a downgrade and a later upgrade lose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from nri.engine.state.tables import ContainerState, PodState

Json = dict[str, Any]


@dataclass(slots=True)
class Record:
    """The fields that pods and containers share. Times are in nanoseconds since 1970; 0 means not set.

    Attributes:
        config: the CRI's configuration as received, in JSON.
        done: the completed steps that a restarted engine must be able to undo, in order.
        nri: the state of NRI: the last event that was reported.
        unknown: the keys of a newer version.
    """

    id: str
    name: str = ""
    attempt: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    config: Json = field(default_factory=dict)
    created_at_ns: int = 0
    done: list[str] = field(default_factory=list)
    nri: Json = field(default_factory=dict)
    unknown: Json = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return this record as JSON values."""
        row = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "unknown"}
        return {**self.unknown, **row}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Parse a record. Raises ValueError if a value has a wrong type, or if the id is missing."""
        if not isinstance(data, Mapping):
            raise ValueError("not a JSON object")  # noqa: TRY004  one kind of complaint for the reader
        known = {entry.name: entry for entry in fields(cls) if entry.name != "unknown"}
        values: Json = {}
        for key, value in data.items():
            if key in known:
                values[key] = _typed_value(key, value, str(known[key].type))
        if not values.get("id"):
            raise ValueError("the key 'id' is missing")
        return cls(**values, unknown={key: value for key, value in data.items() if key not in known})


@dataclass(slots=True)
class PodRecord(Record):
    """A pod sandbox.

    Attributes:
        runtime_handler: the handler's name in the configuration; `requested_handler` is "" for the default.
        resources: the overhead and resources of the last UpdatePodSandboxResources, in JSON.
        namespace_paths: the paths of the pod's pinned namespaces, by their name in the OCI spec.
        network: the CNI result, in JSON; empty for a pod on the host's network.
    """

    namespace: str = ""
    uid: str = ""
    state: PodState = PodState.CREATING
    runtime_handler: str = ""
    requested_handler: str = ""
    hostname: str = ""
    log_directory: str = ""
    cgroup_parent: str = ""
    cgroup_path: str = ""
    pid: int = 0
    conmon_pid: int = 0
    bundle: str = ""
    namespace_paths: dict[str, str] = field(default_factory=dict)
    network: Json = field(default_factory=dict)
    ips: list[str] = field(default_factory=list)
    resources: Json = field(default_factory=dict)
    stopped_at_ns: int = 0


@dataclass(slots=True)
class ContainerRecord(Record):
    """A container.

    Attributes:
        image: the image's name in statuses.
        image_id: the id of the image.
        start_failure: why the OCI runtime refused to create the container, or "". The start then fails with this error.
        resources: the current resources, in JSON: those of the request, with changes of plugins and updates.
        exit_code: the exit code of the main process, or 128 plus the number of a signal. Valid in the state `exited`.
        reason: the CRI's reason for the end, for example Completed, Error or OOMKilled.
    """

    pod_id: str = ""
    state: ContainerState = ContainerState.CREATING
    image: str = ""
    image_id: str = ""
    image_ref: str = ""
    runtime_handler: str = ""
    bundle: str = ""
    rootfs: str = ""
    cgroup_path: str = ""
    log_path: str = ""
    pid: int = 0
    conmon_pid: int = 0
    stop_signal: str = ""
    start_failure: str = ""
    resources: Json = field(default_factory=dict)
    mounts: list[Json] = field(default_factory=list)
    user: Json = field(default_factory=dict)
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""


_TYPES: Mapping[str, type] = {"str": str, "int": int, "Json": dict, "dict[str, str]": dict, "list[str]": list,
                              "list[Json]": list}  # fmt: skip
_ENUMS: Mapping[str, type[PodState | ContainerState]] = {"PodState": PodState, "ContainerState": ContainerState}

#: The limits of keys with numbers. The limit of all other numbers is 1 << 63, as for times in the CRI.
_LIMITS: Mapping[str, int] = {"pid": 1 << 31, "conmon_pid": 1 << 31, "exit_code": 1 << 31, "attempt": 1 << 32}
_PATHS = ("cgroup_path", "cgroup_parent", "bundle", "rootfs", "log_path", "log_directory")


def _typed_value(key: str, value: object, kind: str) -> object:
    """Check and convert the value of a key. `kind` is the annotation of the field."""
    if kind in _ENUMS:
        try:
            return _ENUMS[kind](str(value))
        except ValueError:
            raise ValueError(f"{key!r} is {value!r}; it must be one of {', '.join(_ENUMS[kind])}") from None
    expected = _TYPES[kind]
    if not isinstance(value, expected) or isinstance(value, bool):
        raise ValueError(f"{key!r} is {value!r}; it must be of the type {kind}")  # noqa: TRY004  as above
    if isinstance(value, int) and not 0 <= value < _LIMITS.get(key, 1 << 63):
        raise ValueError(f"{key!r} is {value}; it must be at least 0 and less than {_LIMITS.get(key, 1 << 63)}")
    if kind == "dict[str, str]" and not all(isinstance(text, str) for text in value.values()):  # type: ignore[attr-defined]
        raise ValueError(f"{key!r} has a value that is not a string")
    if key in _PATHS and (".." in str(value).split("/") or "\0" in str(value)):
        raise ValueError(f"{key!r} is {value!r}: a path must not contain '..' or a zero byte")
    return value
