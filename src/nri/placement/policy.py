"""The protocol of placement policies, and JSON documents of their places, explanations and measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from nri.host.topology import Topology
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.choices import Choices
from nri.placement.containers import Container, Pins
from nri.placement.machine import Machine
from nri.placement.scheduling import SchedulingClass
from nri.placement.state import Entries, PlacementState
from nri.placement.tuning import Tuning, tuning_document
from nri.text import quote

#: Maximum number of candidates in a container's explanation; the best candidates are kept.
MAX_CANDIDATES = 32
#: Maximum number of containers that an error names.
_MAX_NAMES = 20
#: Larger numbers lose digits in Python's format `g`.
_MAX_SHORT_NUMBER = 1e5
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Place:
    """A pool or a balloon.

    Attributes:
        level: the level of a pool, or the type of a balloon.
        depth: the depth below the root pool; 0 for balloons.
        cpus: the mask of its CPUs.
        mems: the mask of its memory nodes.
        shared: the mask of the CPUs that its containers share.
        free_m: unrequested CPU, in thousandths of a CPU; for a balloon, at its current size.
        memory_free_bytes: unrequested memory; negative if more is requested than exists.
        containers: ids of its containers.
    """

    name: str
    level: str
    depth: int
    cpus: int
    shared: int
    mems: int
    free_m: int
    memory_bytes: int
    memory_free_bytes: int
    containers: tuple[str, ...]


class Candidate(NamedTuple):
    """A place that was considered for a container.

    Attributes:
        has: the values that were compared, as text.
        lost: the comparison that another place won, or why the place is unsuitable. "" for the chosen place.
        change: the change after which the place would be chosen. "" for the chosen place.
    """

    place: str
    has: str
    lost: str = ""
    change: str = ""


class Explanation(NamedTuple):
    """Why a container is in its place.

    Attributes:
        request: its QoS class and requests, in words.
        place: the name of its place, or "" if it is not pinned.
        then: whether the candidates were compared at its placement; otherwise they are compared now.
        more: the number of further candidates.
    """

    container: Container
    request: str
    place: str
    then: bool
    candidates: list[Candidate]
    more: int = 0


class Gauge(NamedTuple):
    """One measurement, with the metric name of nri-plugins."""

    name: str
    help: str
    labels: dict[str, str]
    value: float


class Devices:
    """The devices of a machine, for policies. This base class is a machine without devices."""

    def cpus_near(self, path: str) -> list[int]:  # noqa: ARG002 - for subclasses
        """One CPU mask for each locality (NUMA node, cache, ...) of a device; `path` is its path in /sys."""
        return []

    def interrupts(self) -> Mapping[int, str]:
        """Descriptions of interrupts by number."""
        return {}


NO_DEVICES = Devices()


class Policy(Protocol):
    """A policy of this package. Its class is a `PolicyType`."""

    name: str
    annotations: ClassVar[Mapping[str, str]]
    ignored_annotations: ClassVar[Mapping[str, str]]
    machine: Machine
    options: Any
    containers: dict[str, Container]
    #: Why an annotation of a running container is not valid any more, by container id.
    unmet: dict[str, str]
    #: Called during each decision. Raises NoPlace after the deadline.
    in_time: Callable[[], None]

    @property
    def pins(self) -> Mapping[str, Pins]:
        """The current pins of all containers."""
        ...

    def create(self, container: Container) -> dict[str, Pins]:
        """Place a container. Returns the pins of all containers that change. Raises NoPlace if no place fits."""
        ...

    def release(self, container_id: str) -> dict[str, Pins]:
        """Release a container. Returns the pins of all containers that change."""
        ...

    def resize(self, container_id: str, requests: Requests) -> dict[str, Pins]:
        """Place a container again with other requests. Returns the changed pins. Raises NoPlace if no place fits."""
        ...

    def scheduling(self, container: Container) -> SchedulingClass | None:
        """The scheduling class of a container's processes. Returns None if their scheduling does not change."""
        ...

    def tuning(self) -> Tuning:
        """The classes of CPUs, and the interrupts that containers claim or avoid."""
        ...

    def node_zones(self) -> list[dict[str, Any]]:
        """The zones of the node's NodeResourceTopology, for each pool or balloon and for its containers."""
        ...

    def saved(self) -> PlacementState:
        """All placements, in the format of the state file."""
        ...

    def changed_entries(self) -> Entries:
        """The entries of the state that may have changed since the last call."""
        ...

    def places(self) -> list[Place]:
        """The pools, from the root down, or the balloons."""
        ...

    def explain(self, container_id: str) -> Explanation:
        """Explain the choice of a container's place. Raises KeyError if the container is unknown."""
        ...

    def gauges(self) -> Iterator[Gauge]:
        """The policy's measurements."""
        ...


class PolicyType(Protocol):
    """The class of a policy. A call raises ValueError if the options do not fit the machine."""

    @property
    def options_type(self) -> type[Any]:
        """The class of options in the `spec` of its custom resource."""
        ...

    @property
    def plugin_options_type(self) -> type[Any]:
        """The options class of the plugin, with the plugin's additional keys."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """The meaning of each annotation that the policy reads, by annotation without scope."""
        ...

    @property
    def ignored_annotations(self) -> Mapping[str, str]:
        """Annotations of other policies, without their domain, with the reason why they have no effect."""
        ...

    def __call__(
        self,
        machine: Machine,
        options: Any,
        choices: Choices = ...,
        state: PlacementState | None = ...,
        containers: Mapping[str, Container] = ...,
        devices: Devices = ...,
    ) -> Policy:
        """Make a policy that restores the earlier placements of these containers, the oldest first."""
        ...


def find_container(containers: Mapping[str, Container], reference: str) -> Container:
    """Find a container by its id, the beginning of its id, NAMESPACE/POD/NAME, POD/NAME, POD or NAME.

    Raises LookupError, with the possible names, if no container or several containers match.
    """
    exact = containers.get(reference)
    if exact is not None:
        return exact
    matches = []
    for container in containers.values():
        name, pod = container.name, container.pod
        names = (str(container), f"{pod.namespace}/{pod.name}", f"{pod.name}/{name}", pod.name, name)
        if reference in names or (reference and container.id.startswith(reference)):
            matches.append(container)
    if len(matches) == 1:
        return matches[0]
    possible_names = [*map(str, matches or containers.values())]
    more = f" and {len(possible_names) - _MAX_NAMES} more" if len(possible_names) > _MAX_NAMES else ""
    listed = ", ".join(sorted(possible_names)[:_MAX_NAMES]) + more
    if matches:
        raise LookupError(f"{quote(reference)} matches several containers: {listed}")
    raise LookupError(f"container {quote(reference)} not found; containers are {listed or 'none'}")


def document(policy: Policy) -> dict[str, Any]:
    """The current state of a policy as plain JSON, with CPUs and memory nodes as lists such as `0-3,8`.

    It has the policy's name, places, containers, classes of CPUs, interrupts, the zones of the node's
    NodeResourceTopology, and the machine, from which diagrams are drawn.
    """
    places = policy.places()
    place_names = {container: place.name for place in places for container in place.containers}
    return {
        "policy": policy.name,
        "places": [_place_row(place, policy) for place in places],
        "containers": [_container(c, place_names.get(c.id, ""), policy) for c in policy.containers.values()],
        **tuning_document(policy.options.cpuClasses, policy.tuning()),
        "zones": policy.node_zones(),
        "machine": _machine(policy.machine),
    }


def explanation_document(policy: Policy, container_id: str) -> dict[str, Any]:
    """A container's explanation as plain JSON. Raises KeyError if the container is unknown."""
    explanation = policy.explain(container_id)
    return {
        **_container(explanation.container, explanation.place, policy),
        "policy": policy.name,
        "request": explanation.request,
        "then": explanation.then,
        "candidates": [candidate._asdict() for candidate in explanation.candidates],
        "more": explanation.more,
        "doubts": list(explanation.container.doubts),
    }


def machine_gauges(policy: Policy, used: Mapping[int, int]) -> Iterator[Gauge]:
    """The measurements of CPUs and memory nodes, which do not depend on the policy.

    Args:
        used: bytes in use by memory node.
    """
    topology, pins = policy.machine.topology, policy.pins
    requested_m, cpu_users, node_users = Counter[int](), Counter[int](), Counter[int]()
    requests: dict[str, list[int]] = {}  # grouped by list of CPUs, because many containers have the same list
    for name, container_pins in pins.items():
        requests.setdefault(container_pins.cpus or "", []).append(policy.containers[name].requests.cpu_m)
        node_users.update(masks.members(masks.parse(container_pins.mems or "")))
    for cpus, amounts_m in requests.items():
        mask = masks.parse(cpus)
        part_m = sum(amount_m // max(mask.bit_count(), 1) for amount_m in amounts_m)
        for number in masks.members(mask):
            requested_m[number] += part_m
            cpu_users[number] += len(amounts_m)
    help_text = "CPU requests of the containers on each CPU."
    for number in masks.members(policy.machine.online):
        cpu = {"cpu_id": str(number)}
        yield Gauge("nri_policy_cpu_allocation_milli_cores", help_text, cpu, requested_m[number])
        yield Gauge("nri_policy_cpu_container_count", "Containers on each CPU.", cpu, cpu_users[number])
    for number, node in topology.nodes.items():
        labels, count = {"node_id": str(number)}, node_users[number]
        labels_with_type = {**labels, "node_type": node.kind.upper()}
        yield Gauge(
            "nri_policy_mem_node_capacity_bytes", "Bytes of each memory node.", labels_with_type, node.memory_bytes
        )
        yield Gauge("nri_policy_mem_node_usage_bytes", "Used bytes of each memory node.", labels, used.get(number, 0))
        yield Gauge("nri_policy_mem_node_container_count", "Containers on each memory node.", labels, count)


def exposition(gauges: Iterable[Gauge]) -> str:
    """Measurements in the text format of Prometheus."""
    families: dict[str, list[str]] = {}
    for name, help_text, labels, value in gauges:
        lines = families.setdefault(name, [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"])
        label_text = ",".join(f'{label}="{text.translate(_ESCAPED)}"' for label, text in labels.items())
        number = f"{value:g}" if value < _MAX_SHORT_NUMBER else f"{value:.0f}"
        lines.append(f"{name}{{{label_text}}} {number}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _place_row(place: Place, policy: Policy) -> dict[str, Any]:
    return {
        "name": place.name,
        "level": place.level,
        "depth": place.depth,
        "cpus": masks.text(place.cpus),
        "cpu_count": place.cpus.bit_count(),
        "shared": masks.text(place.shared),
        "mems": masks.text(place.mems),
        "free_m": place.free_m,
        "memory_bytes": place.memory_bytes,
        "memory_free_bytes": place.memory_free_bytes,
        "containers": [str(policy.containers[name]) for name in place.containers],
    }


def _container(container: Container, place: str, policy: Policy) -> dict[str, Any]:
    pins = policy.pins.get(container.id, Pins())
    return {
        "id": container.id,
        "container": str(container),
        "qos": container.qos,
        "place": place,
        "cpu_m": container.requests.cpu_m,
        "memory_bytes": container.requests.memory_bytes or container.requests.memory_limit_bytes,
        "cpus": pins.cpus or "",
        "mems": pins.mems or "",
        "shares": pins.shares or 0,
        "unmet": policy.unmet.get(container.id, ""),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    """Packages with their nodes, nodes with their last-level caches, caches with the threads of their cores."""
    topology, packages = machine.topology, dict[int, dict[int, dict[int, dict[int, list[int]]]]]()
    for number in masks.members(machine.online):
        cpu = topology.cpus[number]
        llc_cpus = cpu.caches[-1].cpus if cpu.caches and cpu.caches[-1].level > 2 else frozenset[int]()
        caches = packages.setdefault(cpu.package, {}).setdefault(cpu.node, {})
        caches.setdefault(min(llc_cpus, default=-1), {}).setdefault(min(cpu.threads), []).append(number)
    return {
        "packages": [
            {
                "number": package,
                "nodes": [
                    {**_node(topology, node), "caches": [list(cores.values()) for cores in caches.values()]}
                    for node, caches in sorted(nodes.items())
                ],
            }
            for package, nodes in sorted(packages.items())
        ],
        "memory_only": [_node(topology, number) for number, node in sorted(topology.nodes.items()) if not node.cpus],
    }


def _node(topology: Topology, number: int) -> dict[str, Any]:
    node = topology.nodes.get(number)
    return {"number": number, "kind": node.kind if node else "dram", "memory_bytes": node.memory_bytes if node else 0}
