"""The records that the engine keeps of pods and containers.

Plain values only, and CRI's own messages as the dictionaries that they are in JSON, because nothing here knows
CRI; a key that this version does not know is kept and written again, so that going back a version loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from nri.engine.state.tables import ContainerState, PodState

Json = dict[str, Any]


@dataclass(slots=True)
class Record:
    """The fields that pods and containers share. Times are nanoseconds since 1970, 0 for not yet.

    Attributes:
        config: CRI's configuration as it came, in JSON.
        done: the steps that have changed the machine and are not undone, in order: what a restart has to take up.
        nri: what the NRI side keeps: which events were sent, the plugins' adjustment.
        unknown: keys of a newer version.
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
        """This record as JSON knows it."""
        row = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "unknown"}
        return {**self.unknown, **row}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """A record from its JSON. Raises ValueError with the key for a value that is none of its type."""
        if not isinstance(data, Mapping):
            raise ValueError("it is not a table of keys and values")  # noqa: TRY004  one kind of complaint for the reader
        known = {each.name: each for each in fields(cls) if each.name != "unknown"}
        values: Json = {}
        for key, value in data.items():
            if key in known:
                values[key] = _typed(key, value, str(known[key].type))
        if not values.get("id"):
            raise ValueError("the key 'id' is missing")
        return cls(**values, unknown={key: value for key, value in data.items() if key not in known})


@dataclass(slots=True)
class PodRecord(Record):
    """A pod sandbox.

    Attributes:
        resources: those of the last UpdatePodSandboxResources, and the overhead, in JSON.
        namespace_paths: where the pod's pinned namespaces are, by their name in the OCI spec.
        network: what CNI answered, in JSON; empty for a pod on the host's network.
    """

    namespace: str = ""
    uid: str = ""
    state: PodState = PodState.CREATING
    runtime_handler: str = ""
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
        image: the name that the request had; `image_id` is what it meant.
        resources: those in force, in JSON: the request's, as plugins and updates have changed them.
        exit_code: of its first process; 128 + number for a signal; meaningless before `exited`.
        reason: one word for how it ended, as CRI has it: Completed, Error, OOMKilled.
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

#: Keys whose numbers end below those of the CRI's times: what is not given here is less than 1 << 63.
_LIMITS: Mapping[str, int] = {"pid": 1 << 31, "conmon_pid": 1 << 31, "exit_code": 1 << 31, "attempt": 1 << 32}
_PATHS = ("cgroup_path", "cgroup_parent", "bundle", "rootfs", "log_path", "log_directory")


def _typed(key: str, value: object, kind: str) -> object:
    """The value of a key, checked against the field's type as it is written above."""
    if kind in _ENUMS:
        try:
            return _ENUMS[kind](str(value))
        except ValueError:
            raise ValueError(f"{key!r} is {value!r}, which is none of {', '.join(_ENUMS[kind])}") from None
    wanted = _TYPES[kind]
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"{key!r} is {value!r}, and has to be of the kind {kind}")  # noqa: TRY004  as above
    if isinstance(value, int) and not 0 <= value < _LIMITS.get(key, 1 << 63):
        raise ValueError(f"{key!r} is {value}, and has to be at least 0 and less than {_LIMITS.get(key, 1 << 63)}")
    if kind == "dict[str, str]" and not all(isinstance(text, str) for text in value.values()):  # type: ignore[attr-defined]
        raise ValueError(f"{key!r} has a value that is not text")
    if key in _PATHS and (".." in str(value).split("/") or "\0" in str(value)):
        raise ValueError(f"{key!r} is {value!r}: a path in a record has neither '..' nor a zero byte")
    return value
