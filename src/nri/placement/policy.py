"""How a placement policy is used and how it shows itself: places, candidates, and all of it as one document.

One job: the protocol :class:`Policy` of `topology_aware` and `balloons`, and values that tables, pictures and programs
read. Rules: pure; a document is plain JSON, its CPUs and memory nodes lists such as `0-3,8`. Next: `drawing`.
"""

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
from nri.placement.tuning import Tuning, described
from nri.text import quote

#: Places of which an account is kept for each container, the best ones.
MOST_CANDIDATES = 32
#: Containers that an error names.
_MOST_NAMED = 20
#: From here on a number loses digits if it is written as short as can be.
_MOST_EXACT = 1e5
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Place:
    """A pool or a balloon.

    Attributes:
        level: of a pool; of a balloon its type.
        depth: below the root; 0 for balloons.
        cpus, mems: masks; `shared` the CPUs that its containers have in common now.
        free_m: thousandths of CPUs that are not promised; of a balloon, without growing.
        memory_free_bytes: below 0 if more was asked for than there is.
        containers: ids.
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
    """A place that was looked at.

    Attributes:
        has: the numbers that were compared, in words.
        lost: the comparison that decided for another one, or why it could not serve; "" for the chosen one.
        change: what would have to be different for it to be chosen; "" for the chosen one.
    """

    place: str
    has: str
    lost: str = ""
    change: str = ""


class Explanation(NamedTuple):
    """Why a container is where it is.

    Attributes:
        request: its class and what it asks for, in words.
        place: where it is; "" if it is left alone.
        then: whether the candidates are those of its placing; if not, they are compared now, as if it came now.
        more: how many candidates were looked at beside these.
    """

    container: Container
    request: str
    place: str
    then: bool
    candidates: list[Candidate]
    more: int = 0


class Gauge(NamedTuple):
    """One measurement, by the name that the original has for it."""

    name: str
    help: str
    labels: dict[str, str]
    value: float


class Devices:
    """The devices of a machine, as far as policies ask for them. This machine has none."""

    def cpus_near(self, path: str) -> list[int]:  # noqa: ARG002 - for subclasses
        """The masks of CPUs near to a device by its path in /sys, several if it has several parts."""
        return []

    def interrupts(self) -> Mapping[int, str]:
        """The interrupts by number, with their descriptions."""
        return {}


NO_DEVICES = Devices()


class Policy(Protocol):
    """A policy of this package. Its class is a `PolicyType`."""

    name: str
    annotations: ClassVar[Mapping[str, str]]
    unread_annotations: ClassVar[Mapping[str, str]]
    machine: Machine
    options: Any
    containers: dict[str, Container]
    #: By id, containers with an annotation that the options have no meaning for any more, with the reason.
    unmet: dict[str, str]
    in_time: Callable[[], None]

    @property
    def pins(self) -> Mapping[str, Pins]:
        """All pins as they are."""
        ...

    def create(self, container: Container) -> dict[str, Pins]:
        """Place a container; the pins of all that change. Raises NoPlace."""
        ...

    def release(self, container_id: str) -> dict[str, Pins]:
        """Take back what a container has."""
        ...

    def resize(self, container_id: str, requests: Requests) -> dict[str, Pins]:
        """Place a container again. Raises NoPlace."""
        ...

    def scheduling(self, container: Container) -> SchedulingClass | None:
        """How a container's processes are scheduled; None if that is left as it is."""
        ...

    def tuning(self) -> Tuning:
        """The classes of CPUs, and the interrupts that containers want or not."""
        ...

    def node_zones(self) -> list[dict[str, Any]]:
        """The zones of the node's NodeResourceTopology: one for each pool or balloon, and for containers below it."""
        ...

    def saved(self) -> PlacementState:
        """The placements that it has given."""
        ...

    def news(self) -> Entries:
        """Of these what may have changed since it was asked for that last."""
        ...

    def places(self) -> list[Place]:
        """Its pools, from the root down, or its balloons."""
        ...

    def explain(self, container_id: str) -> Explanation:
        """Why a container is where it is. KeyError for one that it does not have."""
        ...

    def gauges(self) -> Iterator[Gauge]:
        """Its measurements."""
        ...


class PolicyType(Protocol):
    """The class of a policy. A call raises ValueError for options that do not go with the machine."""

    @property
    def options_type(self) -> type[Any]:
        """The class that the `spec` of its custom resource is read as."""
        ...

    @property
    def plugin_options_type(self) -> type[Any]:
        """The same with the keys of the plugin itself."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations that it reads, without their scope, with their meaning."""
        ...

    @property
    def unread_annotations(self) -> Mapping[str, str]:
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
        """A policy; it takes up what an earlier one gave to these containers, the oldest first."""
        ...


def find(containers: Mapping[str, Container], words: str) -> Container:
    """Of containers by id that of an id, of its beginning, or of a name: NAMESPACE/POD/NAME, POD/NAME, POD or NAME.

    Raises LookupError if there is none, or several, with those that there are.
    """
    exact = containers.get(words)
    if exact is not None:
        return exact
    found = []
    for each in containers.values():
        pod = each.pod
        names = (str(each), f"{pod.namespace}/{pod.name}", f"{pod.name}/{each.name}", pod.name, each.name)
        if words in names or (words and each.id.startswith(words)):
            found.append(each)
    if len(found) == 1:
        return found[0]
    several = [*map(str, found or containers.values())]
    more = f" and {len(several) - _MOST_NAMED} more" if len(several) > _MOST_NAMED else ""
    listed = ", ".join(sorted(several)[:_MOST_NAMED]) + more
    if found:
        raise LookupError(f"{quote(words)} may be each of {listed}")
    raise LookupError(f"there is no container {quote(words)}; there are {listed or 'none'}")


def document(policy: Policy) -> dict[str, Any]:
    """A policy as it is now, as plain values.

    It has the policy's name, places, containers, classes of CPUs, interrupts, the zones of the node's
    NodeResourceTopology and, for pictures, the machine.
    """
    places = policy.places()
    where = {container: place.name for place in places for container in place.containers}
    return {
        "policy": policy.name,
        "places": [_place(place, policy) for place in places],
        "containers": [_container(each, where.get(each.id, ""), policy) for each in policy.containers.values()],
        **described(policy.options.cpuClasses, policy.tuning()),
        "zones": policy.node_zones(),
        "machine": _machine(policy.machine),
    }


def account(policy: Policy, container_id: str) -> dict[str, Any]:
    """One container's explanation. KeyError if the policy does not have it."""
    found = policy.explain(container_id)
    return {
        **_container(found.container, found.place, policy),
        "policy": policy.name,
        "request": found.request,
        "then": found.then,
        "candidates": [each._asdict() for each in found.candidates],
        "more": found.more,
        "doubts": list(found.container.doubts),
    }


def machine_gauges(policy: Policy, used: Mapping[int, int]) -> Iterator[Gauge]:
    """The measurements of CPUs and memory nodes, which are the same of all policies. `used`: bytes of each node."""
    topology, pins = policy.machine.topology, policy.pins
    asked, tenants, users = Counter[int](), Counter[int](), Counter[int]()
    shared: dict[str, list[int]] = {}  # what those with the same CPUs ask for, because many share
    for name, given in pins.items():
        shared.setdefault(given.cpus or "", []).append(policy.containers[name].requests.cpu_m)
        users.update(masks.members(masks.parse(given.mems or "")))
    for cpus, wanted in shared.items():
        mask = masks.parse(cpus)
        part = sum(each // max(mask.bit_count(), 1) for each in wanted)
        for number in masks.members(mask):
            asked[number] += part
            tenants[number] += len(wanted)
    words = "Of each CPU: what its containers ask for."
    for number in masks.members(policy.machine.online):
        cpu = {"cpu_id": str(number)}
        yield Gauge("nri_policy_cpu_allocation_milli_cores", words, cpu, asked[number])
        yield Gauge("nri_policy_cpu_container_count", "Of each CPU: containers.", cpu, tenants[number])
    for number, each in topology.nodes.items():
        node, count = {"node_id": str(number)}, users[number]
        typed = {**node, "node_type": each.kind.upper()}
        yield Gauge("nri_policy_mem_node_capacity_bytes", "Of each memory node: bytes.", typed, each.memory_bytes)
        yield Gauge("nri_policy_mem_node_usage_bytes", "Of each memory node: bytes used.", node, used.get(number, 0))
        yield Gauge("nri_policy_mem_node_container_count", "Of each memory node: containers.", node, count)


def exposition(gauges: Iterable[Gauge]) -> str:
    """Measurements in the text format of Prometheus."""
    families: dict[str, list[str]] = {}
    for name, words, labels, value in gauges:
        lines = families.setdefault(name, [f"# HELP {name} {words}", f"# TYPE {name} gauge"])
        given = ",".join(f'{label}="{text.translate(_ESCAPED)}"' for label, text in labels.items())
        lines.append(f"{name}{{{given}}} {value:g}" if value < _MOST_EXACT else f"{name}{{{given}}} {value:.0f}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _place(place: Place, policy: Policy) -> dict[str, Any]:
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
    """Packages with their nodes, these with their last caches, these with the threads of their cores."""
    topology, packages = machine.topology, dict[int, dict[int, dict[int, dict[int, list[int]]]]]()
    for number in masks.members(machine.online):
        cpu = topology.cpus[number]
        last = cpu.caches[-1].cpus if cpu.caches and cpu.caches[-1].level > 2 else frozenset[int]()
        caches = packages.setdefault(cpu.package, {}).setdefault(cpu.node, {})
        caches.setdefault(min(last, default=-1), {}).setdefault(min(cpu.threads), []).append(number)
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
