"""Pods and containers for placement: requests, annotations and pins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.api import annotations as convention
from nri.config import Source, parse_text
from nri.errors import NriError
from nri.kube.requests import ANNOTATION, Requests, annotated, estimated, qos_of_cgroup_parent
from nri.placement.choices import Choices
from nri.placement.zones import parse_kinds
from nri.text import plain

if TYPE_CHECKING:
    from nri.api import messages as m
SUFFIX = ".resource-policy.nri.io"
_NOTHING = Requests()
#: Maximum number of doubts kept per container; the last doubt only states that there are more.
MAX_DOUBTS = 20
_MAX_DOUBT_LENGTH = 400
_MAX_REASON_LENGTH = 4096
_MAX_VALUE_LENGTH = 80
_MAX_MEMORY_TYPES = 16


class NoPlace(NriError):
    """A container cannot be placed.

    Attributes:
        container: its namespace, pod and name.
        reason: the places that were considered, and what each of them lacked.
    """

    def __init__(self, container: str, reason: str) -> None:
        reason = plain(reason, _MAX_REASON_LENGTH)
        super().__init__(f"no place for {container}: {reason}")
        self.container = container
        self.reason = reason


def quoted(value: str) -> str:
    """The beginning of an annotation's value, in quotes."""
    return repr(plain(value, _MAX_VALUE_LENGTH))


def no_deadline() -> None:
    """Never raise: the deadline check for a decision without a deadline (see `in_time` of the policies)."""


class Pins(NamedTuple):
    """The CPUs and memory nodes that a container is pinned to; None means not set, "" an empty set."""

    cpus: str | None = None
    mems: str | None = None
    shares: int | None = None

    def __or__(self, later: Pins) -> Pins:
        """These pins, replaced by the pins that are set in `later`."""
        return Pins(
            self.cpus if later.cpus is None else later.cpus,
            self.mems if later.mems is None else later.mems,
            self.shares if later.shares is None else later.shares,
        )


class SavedState(NamedTuple):
    """The state of a container that was last saved: the requests at that time, and the `state.ContainerState`."""

    requests: Requests
    state: Any


class Hint(NamedTuple):
    """The location of a device or disk of a container: lists of CPUs, memory nodes or packages."""

    cpus: str = ""
    nodes: str = ""
    packages: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod.

    Attributes:
        qos: Guaranteed, Burstable or BestEffort.
        class_known: whether `qosclass` has a value in expressions.
    """

    id: str
    name: str
    namespace: str = "default"
    uid: str = ""
    qos: str = "BestEffort"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    class_known: bool = True
    #: The annotations that placement policies read.
    policy_annotations: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        policy_annotations = {key: value for key, value in self.annotations.items() if SUFFIX in key}
        object.__setattr__(self, "policy_annotations", policy_annotations)

    def values(self) -> Mapping[str, str]:
        """Values of the simple keys in expressions."""
        values = {"id": self.id, "uid": self.uid, "name": self.name, "namespace": self.namespace}
        return values | ({"qosclass": self.qos} if self.class_known else {})


@dataclass(slots=True)
class Container:
    """A container with its current requests.

    Attributes:
        hints: the locations of its devices and mounts, by device, mount or folder.
        mems: the memory nodes that the runtime gave it, or "".
        shares: the CPU shares that the runtime gave it.
        runs: whether it is already running. A running container is not refused for an invalid annotation.
        unmet_requests: its requests, if they did not fit and it was placed as if it had none.
        doubts: complaints about annotations that could not be read.
        saved: the state that was last saved, or None.
    """

    id: str
    name: str
    pod: Pod
    requests: Requests = _NOTHING
    labels: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Hint] = field(default_factory=dict)
    mems: str = ""
    shares: int | None = None
    doubts: list[str] = field(default_factory=list)
    runs: bool = False
    unmet_requests: Requests | None = None
    saved: SavedState | None = field(default=None, repr=False, compare=False)
    #: Results of `table`, because annotations do not change and some are read every second.
    _tables: dict[str, dict[str, Any]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}/{self.name}"

    @property
    def qos(self) -> str:
        """The pod's QoS class."""
        return self.pod.qos

    def values(self) -> Mapping[str, str]:
        """Values of the simple keys in expressions."""
        return {"id": self.id, "name": self.name, "namespace": self.pod.namespace, "qosclass": self.pod.qos}

    def resizes(self, before: Requests, after: Requests, choices: Choices) -> bool:
        """Whether the new requests are a resize of the container."""
        if choices.dropped_requests_count or self.qos == "Guaranteed":
            return before != after
        return any(new not in (old, 0) for old, new in zip(before, after, strict=True))

    def scoped_annotation(self, key: str) -> tuple[int, str] | None:
        """The scope and the value of a policy annotation; `key` is without `SUFFIX`."""
        annotations = self.pod.policy_annotations
        return convention.scope_and_value(annotations, key + SUFFIX, self.name) if annotations else None

    def scoped_flag(self, key: str) -> tuple[int, bool] | None:
        """The scope and the value of an annotation that is true or false."""
        annotation = self.scoped_annotation(key)
        if annotation is None:
            return None
        value = convention.BOOLEANS.get(annotation[1])
        if value is None:
            self.doubt(key, f"{quoted(annotation[1])} must be true or false")
            return None
        return annotation[0], value

    def hide_class(self) -> None:
        """Let `pod/qosclass` have no value in expressions."""
        self.pod = replace(self.pod, class_known=False)

    def memory_mask(self, mixed: bool = True) -> int:
        """The mask of memory kinds in its annotation. Returns 0 without one, or for "mixed" if `mixed` is false."""
        annotation = self.scoped_annotation("memory-type")
        kinds = annotation[1].split(",", _MAX_MEMORY_TYPES) if annotation and annotation[1] else []
        try:
            if len(kinds) > _MAX_MEMORY_TYPES:
                raise ValueError(f"at most {_MAX_MEMORY_TYPES} types are allowed")
            return parse_kinds(kinds) if mixed or "mixed" not in kinds else 0
        except ValueError as error:
            self.doubt("memory-type", str(error))
            return 0

    def preserves(self, resource: str) -> bool:
        """Whether the policy must not change its `cpu` or `memory`."""
        annotation = self.scoped_annotation(f"{resource}.preserve")
        if annotation is not None and annotation[1] not in ("true", "false"):  # nri-plugins accepts no other spelling
            self.doubt(f"{resource}.preserve", f"{quoted(annotation[1])} must be true or false")
        return annotation is not None and annotation[1] == "true"

    def table(self, key: str, *keys: str) -> dict[str, Any]:
        """The mapping in an annotation. Returns an empty mapping if the container does not have the annotation.

        As in nri-plugins keys may be in any case. Unknown keys are reported as doubts.

        Raises:
            ValueError: the value is not a mapping; a ConfigError if it is not valid YAML.
        """
        if key in self._tables:
            return self._tables[key]
        annotation = self.scoped_annotation(key)
        tree = None if annotation is None else parse_text(Source(key, annotation[1], "yaml"))
        if not isinstance(tree, dict | None):
            raise ValueError(f"expected a mapping of keys to values ({', '.join(keys)}), not {json.dumps(tree)}")  # noqa: TRY004
        table = {}
        for name, value in (tree or {}).items():
            if name.lower() in keys:
                table[name.lower()] = value
            else:
                self.doubt(key, f"unknown key {quoted(name)}; known keys: {', '.join(keys)}")
        self._tables[key] = table
        return table

    def refusal(self, key: str, problem: object) -> NoPlace:
        """The error that refuses the container because of an annotation, named with its full key.

        It is raised for annotations that nri-plugins refuses, too; other invalid annotations count as absent and are
        reported by `doubt`.
        """
        annotation = self.scoped_annotation(key)
        full_key = key if annotation is None else convention.keys(key + SUFFIX, self.name)[annotation[0]]
        start, text = f"annotation {full_key}", str(problem)
        return NoPlace(str(self), text if text.startswith(start) else f"{start}: {text}")

    def doubt(self, key: str, problem: str) -> None:
        """Record a problem with an annotation. `key` is the full key, or the key without `SUFFIX`.

        At most `MAX_DOUBTS` are kept, because an annotation may have thousands of mistakes.
        """
        if len(self.doubts) < MAX_DOUBTS:
            doubt = plain(f"annotation {key if '/' in key else key + SUFFIX}: {problem}", _MAX_DOUBT_LENGTH)
            if doubt not in self.doubts:
                last = len(self.doubts) == MAX_DOUBTS - 1
                self.doubts.append("more mistakes in annotations" if last else doubt)


def container_of(pod: m.PodSandbox, container: m.Container, node_bytes: int) -> Container:
    """Make a container from NRI's messages; requests are exact if the pod has them as an annotation, else estimated."""
    linux, qos = container.linux, qos_of_cgroup_parent(pod.linux.cgroup_parent)
    cpu, memory = linux.resources.cpu, linux.resources.memory
    doubts, requests = [], None
    try:
        requests = annotated(pod.annotations, container.name)
    except ValueError as error:
        doubts = [f"annotation {ANNOTATION}: {error}"]
    requests = requests or estimated(
        qos,
        cpu.shares.value,
        cpu.quota.value,
        cpu.period.value,
        memory.limit.value,
        linux.oom_score_adj.value,
        node_bytes,
    )
    owner = Pod(pod.id, pod.name, pod.namespace, pod.uid, qos, dict(pod.labels), dict(pod.annotations))
    shares = cpu.shares.value or None
    return Container(
        container.id, container.name, owner, requests, dict(container.labels), {}, cpu.mems, shares, doubts
    )


class Changes:
    """The pins of all containers, and which of them have changed.

    Attributes:
        touched: the containers that were pinned or forgotten, in this order. The writer of the state file clears it.
    """

    def __init__(self) -> None:
        self.pins: dict[str, Pins] = {}
        self.touched: dict[str, None] = {}
        self._changed: dict[str, Pins] = {}

    def set(self, name: str, cpus: str | None = None, mems: str | None = None, shares: int | None = None) -> None:
        """Pin a container; None leaves a pin as it is."""
        new = Pins(cpus, mems, shares)
        self.touched[name] = None
        for table in (self.pins, self._changed):
            before = table.get(name)
            table[name] = new if before is None else before | new

    def follow(self, name: str, cpus: str | None = None, mems: str | None = None, shares: int | None = None) -> None:
        """Pin a container unless its pins are already the same, for example after another container's change."""
        now = self.pins.get(name)
        if (
            now is None
            or (cpus is not None and cpus != now.cpus)
            or (mems is not None and mems != now.mems)
            or (shares is not None and shares != now.shares)
        ):
            self.set(name, cpus, mems, shares)

    def repeat(self, name: str, shares: int | None = None) -> None:
        """Report a container's pins as changed once more, with these shares if its shares are not pinned."""
        now = self.pins.get(name, Pins())
        self._changed[name] = now if now.shares is not None else now._replace(shares=shares)

    def leave_shares(self, name: str) -> None:
        """Stop pinning a container's shares; it keeps those that the runtime gave it."""
        cpus, mems, shares = self.pins.get(name, Pins())
        if shares is not None:
            self.pins[name] = Pins(cpus, mems)

    def forget(self, name: str) -> None:
        """Forget a removed container."""
        self.touched[name] = None
        self.pins.pop(name, None)
        self._changed.pop(name, None)

    def take(self) -> dict[str, Pins]:
        """Return the pins that changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def saved(self) -> tuple[dict[str, Pins], dict[str, Pins]]:
        """All pins, for `restore`."""
        return dict(self.pins), dict(self._changed)

    def restore(self, saved: tuple[dict[str, Pins], dict[str, Pins]]) -> None:
        """Restore the pins that `saved` returned."""
        self.pins, self._changed = saved
