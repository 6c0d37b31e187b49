"""Pods and containers as placement sees them, the pins that it gives, and what their annotations prefer.

One job: values that both policies need. Rules: pure; an annotation that cannot be read refuses the container where it
does so in the originals (`Container.refusal`), else it counts as not given, and is reported in `Container.doubts`.
Next: `expressions`, `nri.kube.requests`.
"""

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

__all__ = ["Changes", "Container", "Hint", "NoPlace", "Pins", "Pod", "always", "container_of", "shown"]

SUFFIX = ".resource-policy.nri.io"
_NOTHING = Requests()
#: Doubts of one container that are kept; the last one says that there are more.
MAX_DOUBTS = 20
_MAX_DOUBT_LENGTH = 400
_MAX_REASON_LENGTH = 4096
_MAX_VALUE_LENGTH = 80
_MAX_MEMORY_TYPES = 16


class NoPlace(NriError):
    """A container cannot be placed.

    Attributes:
        container: its name with that of its pod.
        reason: what was looked at, and what each lacked.
    """

    def __init__(self, container: str, reason: str) -> None:
        reason = plain(reason, _MAX_REASON_LENGTH)
        super().__init__(f"no place for {container}: {reason}")
        self.container = container
        self.reason = reason


def shown(value: str) -> str:
    """The beginning of an annotation's value, in quotes."""
    return repr(plain(value, _MAX_VALUE_LENGTH))


def always() -> None:
    """There is always time; see `in_time` of the policies."""


class Pins(NamedTuple):
    """The CPUs and memory nodes that a container is pinned to; None is not set, "" is an explicit nothing."""

    cpus: str | None = None
    mems: str | None = None
    shares: int | None = None

    def __or__(self, later: Pins) -> Pins:
        """These pins, and the later ones over them."""
        return Pins(
            self.cpus if later.cpus is None else later.cpus,
            self.mems if later.mems is None else later.mems,
            self.shares if later.shares is None else later.shares,
        )


class Hint(NamedTuple):
    """Where something that a container uses is: lists of CPUs, of memory nodes or of packages."""

    cpus: str = ""
    nodes: str = ""
    packages: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. `qos` is Guaranteed, Burstable or BestEffort; `class_known` whether expressions may ask for it."""

    id: str
    name: str
    namespace: str = "default"
    uid: str = ""
    qos: str = "BestEffort"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    class_known: bool = True
    #: Those of the annotations that are the policies'.
    asks: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        asks = {key: value for key, value in self.annotations.items() if SUFFIX in key}
        object.__setattr__(self, "asks", asks)

    def values(self) -> Mapping[str, str]:
        """Its simple keys in expressions."""
        found = {"id": self.id, "uid": self.uid, "name": self.name, "namespace": self.namespace}
        return found | ({"qosclass": self.qos} if self.class_known else {})


@dataclass(slots=True)
class Container:
    """A container, with its requests as they are now.

    Attributes:
        hints: by what gave them.
        mems: the memory nodes it came with, "" for none; `shares` the weight.
        runs: whether it runs already: an annotation that a new configuration has no meaning for does not refuse it.
        asked: its requests, if there was no room for them and it was placed as if it asked for nothing.
        doubts: annotations that could not be read, in words.
        written: with which requests it was written down last, and how (`state.ContainerState`).
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
    asked: Requests | None = None
    written: tuple[Requests, Any] | None = field(default=None, repr=False, compare=False)
    #: What `table` returned, because annotations do not change and some are asked for every second.
    _tables: dict[str, dict[str, Any]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}/{self.name}"

    @property
    def qos(self) -> str:
        """The pod's class of service."""
        return self.pod.qos

    def values(self) -> Mapping[str, str]:
        """Its simple keys in expressions."""
        return {"id": self.id, "name": self.name, "namespace": self.pod.namespace, "qosclass": self.pod.qos}

    def resizes(self, before: Requests, after: Requests, choices: Choices) -> bool:
        """Whether other requests are a change."""
        if choices.dropped_requests_count or self.qos == "Guaranteed":
            return before != after
        return any(new not in (old, 0) for old, new in zip(before, after, strict=True))

    def asks(self, key: str) -> tuple[int, str] | None:
        """The scope and the value of an annotation of the policies, its key without the domain."""
        asks = self.pod.asks
        return convention.scoped(asks, key + SUFFIX, self.name) if asks else None

    def asks_flag(self, key: str) -> tuple[int, bool] | None:
        """The same, as true or false."""
        found = self.asks(key)
        if found is None:
            return None
        value = convention.BOOLEANS.get(found[1])
        if value is None:
            self.doubt(key, f"{shown(found[1])} is neither true nor false")
            return None
        return found[0], value

    def hide_class(self) -> None:
        """Let expressions find no class of service of its pod."""
        self.pod = replace(self.pod, class_known=False)

    def asks_memory(self, mixed: bool = True) -> int:
        """The kinds of memory of its annotation, 0 for none; without `mixed` that word counts as a mistake."""
        found = self.asks("memory-type")
        words = found[1].split(",", _MAX_MEMORY_TYPES) if found and found[1] else []
        try:
            if len(words) > _MAX_MEMORY_TYPES:
                raise ValueError(f"it has more than {_MAX_MEMORY_TYPES} words")
            return parse_kinds(words) if mixed or "mixed" not in words else 0
        except ValueError as error:
            self.doubt("memory-type", str(error))
            return 0

    def preserves(self, what: str) -> bool:
        """Whether its `cpu` or `memory` is left alone."""
        found = self.asks(f"{what}.preserve")
        if found is not None and found[1] not in ("true", "false"):  # no other word for true counts
            self.doubt(f"{what}.preserve", f"{shown(found[1])} is neither true nor false")
        return found is not None and found[1] == "true"

    def table(self, key: str, *known: str) -> dict[str, Any]:
        """The table of an annotation, empty if it is not given. ValueError, or ConfigError, if it is none.

        As in the originals keys are taken in any case, and unknown ones passed over; these are doubted.
        """
        if key in self._tables:
            return self._tables[key]
        found = self.asks(key)
        tree = None if found is None else parse_text(Source(key, found[1], "yaml"))
        if not isinstance(tree, dict | None):
            raise ValueError(f"expected a table of keys ({', '.join(known)}), not {json.dumps(tree)}")  # noqa: TRY004
        made = {}
        for word, value in (tree or {}).items():
            if word.lower() in known:
                made[word.lower()] = value
            else:
                self.doubt(key, f"{shown(word)} is no key; known keys: {', '.join(known)}")
        self._tables[key] = made
        return made

    def refusal(self, key: str, words: object) -> NoPlace:
        """Why it has no place: an annotation, its key as in `doubt`; the whole key that counts is named."""
        found = self.asks(key)
        whole = key if found is None else convention.keys(key + SUFFIX, self.name)[found[0]]
        start, said = f"annotation {whole}", str(words)
        return NoPlace(str(self), said if said.startswith(start) else f"{start}: {said}")

    def doubt(self, key: str, words: str) -> None:
        """Note an annotation that could not be read; its key is whole, or without the domain as in `asks`.

        After the first ones only that there are more, because an annotation may have thousands of mistakes.
        """
        if len(self.doubts) < MAX_DOUBTS:
            said = plain(f"annotation {key if '/' in key else key + SUFFIX}: {words}", _MAX_DOUBT_LENGTH)
            if said not in self.doubts:
                last = len(self.doubts) == MAX_DOUBTS - 1
                self.doubts.append("more mistakes in annotations" if last else said)


def container_of(pod: m.PodSandbox, container: m.Container, node_bytes: int) -> Container:
    """A container as NRI reports it; its requests exact if the pod has them as an annotation, else estimated."""
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
    of = Pod(pod.id, pod.name, pod.namespace, pod.uid, qos, dict(pod.labels), dict(pod.annotations))
    shares = cpu.shares.value or None
    return Container(container.id, container.name, of, requests, dict(container.labels), {}, cpu.mems, shares, doubts)


class Changes:
    """Pins as they are, by container.

    Attributes:
        touched: the containers that were pinned, or forgotten, in their order; who writes them down clears it.
    """

    def __init__(self) -> None:
        self.pins: dict[str, Pins] = {}
        self.touched: dict[str, None] = {}
        self._changed: dict[str, Pins] = {}

    def set(self, name: str, cpus: str | None = None, mems: str | None = None, shares: int | None = None) -> None:
        """Pin a container; what is None stays as it is."""
        given = Pins(cpus, mems, shares)
        self.touched[name] = None
        for each in (self.pins, self._changed):
            before = each.get(name)
            each[name] = given if before is None else before | given

    def follow(self, name: str, cpus: str | None = None, mems: str | None = None, shares: int | None = None) -> None:
        """Pin a container, perhaps for the sake of another one; what it is pinned to already is no change."""
        now = self.pins.get(name)
        if (
            now is None
            or (cpus is not None and cpus != now.cpus)
            or (mems is not None and mems != now.mems)
            or (shares is not None and shares != now.shares)
        ):
            self.set(name, cpus, mems, shares)

    def again(self, name: str, shares: int | None = None) -> None:
        """Give out a container's pins once more, with these shares if it was pinned to none."""
        now = self.pins.get(name, Pins())
        self._changed[name] = now if now.shares is not None else now._replace(shares=shares)

    def leave_shares(self, name: str) -> None:
        """Pin a container to no shares any more: it has those that it was given by others."""
        cpus, mems, shares = self.pins.get(name, Pins())
        if shares is not None:
            self.pins[name] = Pins(cpus, mems)

    def forget(self, name: str) -> None:
        """Forget a container that is gone."""
        self.touched[name] = None
        self.pins.pop(name, None)
        self._changed.pop(name, None)

    def take(self) -> dict[str, Pins]:
        """The pins since the last time."""
        changed, self._changed = self._changed, {}
        return changed

    def saved(self) -> tuple[dict[str, Pins], dict[str, Pins]]:
        """All pins, to be restored."""
        return dict(self.pins), dict(self._changed)

    def restore(self, saved: tuple[dict[str, Pins], dict[str, Pins]]) -> None:
        """Pin all as they were."""
        self.pins, self._changed = saved
