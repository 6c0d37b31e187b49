"""Replay a sequence of pods with a policy: create, resize and delete them as a kubelet does, and compare each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from nri.api import cpuset
from nri.config import Source, parse_text
from nri.host.topology import Topology
from nri.kube.quantity import CPU_PERIOD_US, cpu_quota_us, cpu_shares
from nri.kube.requests import estimated
from nri.placement.choices import Choices
from nri.placement.containers import Container, Hint, NoPlace, Pins, Pod
from nri.placement.hints import sources_of
from nri.placement.machine import Machine
from nri.placement.policy import Policy
from nri.placement.recorded.machines import make_policy, with_overrides

#: The beginning of a line about a failed assertion.
UNMET = "assertion not met"

#: OOM scores by QoS class.
_SCORES = {"Guaranteed": -997, "BestEffort": 1000}


@dataclass(slots=True)
class _PlayedContainer:
    """A container with the resources that a kubelet passes to the runtime."""

    pod: str
    qos: str
    quota_us: int
    memory_limit: int
    score: int
    container: Container


@dataclass(slots=True)
class SequenceRun:
    """A sequence in progress.

    Attributes:
        runtime: each container's pins in the runtime: its adjustment with all later updates.
        history: these pins and the refused containers after each step.
    """

    case: Mapping[str, Any]
    policy: Policy
    topology: Topology
    runtime: dict[str, Pins] = field(default_factory=dict)
    containers: dict[str, _PlayedContainer] = field(default_factory=dict)
    history: list[tuple[dict[str, Pins], list[str]]] = field(default_factory=list)

    def run(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Play all steps. Yields each step's number and its outcome in the format of the file."""
        for number, step in enumerate(self.case.get("steps", ())):
            before = dict(self.runtime)
            outcome: dict[str, Any] = {}
            play_step = {"create": self._create, "delete": self._delete, "resize": self._resize}[step["op"]]
            errors = play_step(step)
            outcome["changed"] = {
                name: {"cpus": pins.cpus or "", "mems": pins.mems or "", "cpu_shares": pins.shares or 0}
                for name, pins in self.runtime.items()
                if before.get(name) != pins
            }
            if errors:
                outcome["errors_for"] = errors
            self.history.append((dict(self.runtime), errors))
            yield number, outcome

    def _apply(self, changes: Mapping[str, Pins]) -> None:
        for name, pins in changes.items():
            if name in self.runtime:  # NRI cannot express an empty list; it leaves the previous value
                self.runtime[name] |= Pins(pins.cpus or None, pins.mems or None, pins.shares)

    def _create(self, step: Mapping[str, Any]) -> list[str]:
        pod = Pod(
            step["pod"],
            step["pod"],
            step["namespace"],
            qos=step["qos"],
            labels=step.get("labels", {}),
            annotations=step.get("annotations", {}),
        )
        refused = []
        for values in step["containers"]:
            name, capacity = values["name"], self.case["node_memory_capacity_bytes"]
            shares = cpu_shares(Fraction(values.get("cpu_request_m", 0), 1000))
            limit = values.get("cpu_limit_m", 0)
            quota = cpu_quota_us(Fraction(limit, 1000)) if limit else 0
            score = 1000 - 1000 * values.get("mem_request", 0) // capacity
            score = _SCORES.get(pod.qos, max(2, min(score, 999)))
            memory = values.get("mem_limit", 0)
            requests = estimated(pod.qos, shares, quota, CPU_PERIOD_US, memory, score, capacity)
            container = Container(name, name, pod, requests, shares=shares)
            container.hints = self._hints(container)
            self.runtime[name] = Pins("", "", shares)
            self.containers[name] = _PlayedContainer(pod.name, pod.qos, quota, memory, score, container)
            try:
                self._apply(self.policy.create(container))
            except NoPlace:
                refused.append(name)
                del self.runtime[name], self.containers[name]
        return refused

    def _hints(self, container: Container) -> Mapping[str, Hint]:
        annotation = container.scoped_annotation("test.topologyhints")
        if annotation is None or not self.case.get("topology_overrides", {}).get("test_topology_hint_annotation"):
            return {}
        hints, counts = {}, sources_of(container).counts
        for name, values in parse_text(Source("hints", annotation[1], "yaml")).items():
            cpus, nodes = values.get("CPUs", ""), values.get("NUMAs", "")
            if nodes and not cpus:
                present = (number for number in cpuset.parse(nodes) if number in self.topology.nodes)
                local = (self.topology.nodes[number].cpus for number in present)
                cpus = cpuset.to_text(number for numbers in local for number in numbers)
            if counts(values.get("Provider", "")):
                hints[name] = Hint(cpus, nodes, values.get("Sockets", ""))
        return hints

    def _delete(self, step: Mapping[str, Any]) -> list[str]:
        for pod in step["pods"]:
            names = [name for name, container in self.containers.items() if container.pod == pod]
            for name in names:
                self._apply(self.policy.release(name))
            for name in names:
                del self.containers[name], self.runtime[name]
        return []

    def _resize(self, step: Mapping[str, Any]) -> list[str]:
        name = step["container"]
        played = self.containers.get(name)
        if played is None:
            return [name]
        shares = cpu_shares(Fraction(step["cpu_request_m"], 1000))
        limit = step.get("cpu_limit_m", 0)
        requests = estimated(
            played.qos,
            shares,
            cpu_quota_us(Fraction(limit, 1000)) if limit else played.quota_us,
            CPU_PERIOD_US,
            step.get("mem_limit", 0) or played.memory_limit,
            played.score,
            self.case["node_memory_capacity_bytes"],
        )
        try:
            changes = self.policy.resize(name, requests)
        except NoPlace:
            return [name]
        self.runtime[name] = self.runtime[name]._replace(shares=shares)
        self._apply(changes)
        return []


def play(case: Mapping[str, Any], topology: Topology, choices: Choices) -> SequenceRun:
    """Start a sequence. Raises ValueError or ConfigError if the policy refuses its configuration."""
    topology = with_overrides(topology, case.get("topology_overrides", {}))
    policy = make_policy(case["policy"], Machine.of(topology), case["config"], choices)
    return SequenceRun(case, policy, topology)


def differences(case: Mapping[str, Any], topology: Topology, choices: Choices) -> list[str]:
    """The differences from the recording, each as a line."""
    expected_setup = case.get("expected", {}).get("setup")
    try:
        run = play(case, topology, choices)
    except ValueError as error:
        return [] if expected_setup == "error" else [f"the configuration is refused: {error}"]
    if expected_setup == "error":
        return ["the configuration is accepted, but should be refused"]
    lines = [
        f"{UNMET}: {assertion}"
        for assertion in case.get("repo_assertions", ())
        if "after_step" not in assertion and not _has_zones(assertion.get("zone_attributes", {}), run.policy)
    ]
    for number, outcome in run.run():
        expect = case["steps"][number]["expect"]
        for key, nothing in (("changed", {}), ("errors_for", [])):
            got, expected = outcome.get(key, nothing), expect.get(key, nothing)
            if got != expected:
                lines.append(f"step {number} ({case['steps'][number]['op']}) {key}: expected {expected}, got {got}")
    later = [assertion for assertion in case.get("repo_assertions", ()) if "after_step" in assertion]
    return lines + [f"{UNMET}: {assertion}" for assertion in later if not _is_met(assertion, run)]


def _has_zones(expected: Mapping[str, Mapping[str, str]], policy: Policy) -> bool:
    """Whether the zones of the node's NodeResourceTopology have these attributes."""
    zones = {zone["name"]: {a["name"]: a["value"] for a in zone["attributes"]} for zone in policy.node_zones()}
    return all(zones.get(name, {}).items() >= attributes.items() for name, attributes in expected.items())


class _State(NamedTuple):
    """The state after a step: the pins, CPUs and nodes of each container, and the refused containers."""

    pins: Mapping[str, Pins]
    cpus: Mapping[str, frozenset[int]]
    nodes: Mapping[str, frozenset[int]]
    refused: frozenset[str]


def _is_met(assertion: Mapping[str, Any], run: SequenceRun) -> bool:
    """Whether an assertion holds after its step. Returns False if a container of the assertion does not exist then."""
    pins, refused = run.history[assertion["after_step"]]
    cpus = {name: cpuset.parse(container_pins.cpus or "") for name, container_pins in pins.items()}
    nodes = {name: frozenset(run.topology.cpus[n].node for n in numbers) for name, numbers in cpus.items()}
    state = _State(pins, cpus, nodes, frozenset(refused))
    checks = [(kind, expected) for kind, expected in assertion.items() if kind != "after_step"]
    if any(name not in pins for kind, expected in checks if kind != "create_fails" for name in expected):
        return False
    return all(ASSERTIONS[kind](state, expected) for kind, expected in checks)


def _disjoint(sets: list[frozenset[int]]) -> bool:
    return sum(map(len, sets)) == len(frozenset().union(*sets))


#: The checks of an assertion by kind; each returns whether it holds.
ASSERTIONS: Mapping[str, Callable[[_State, Any], bool]] = {
    "cpu_count": lambda state, want: all(len(state.cpus[name]) == count for name, count in want.items()),
    "cpu_count_at_least": lambda state, want: all(len(state.cpus[name]) >= count for name, count in want.items()),
    "cpus": lambda state, want: all(state.cpus[name] == cpuset.parse(text) for name, text in want.items()),
    "cpus_subset_of": lambda state, want: all(state.cpus[name] <= cpuset.parse(text) for name, text in want.items()),
    "mems": lambda state, want: all(state.pins[name].mems == text for name, text in want.items()),
    "disjoint_cpus": lambda state, want: _disjoint([state.cpus[name] for name in want]),
    "same_cpus": lambda state, want: len({state.cpus[name] for name in want}) == 1,
    "not_pinned": lambda state, want: not any(state.cpus[name] for name in want),
    "create_fails": lambda state, want: state.refused >= set(want),
    "numa_nodes_of_cpus": lambda state, want: all(
        state.nodes[name] == cpuset.parse(text) for name, text in want.items()
    ),
    "numa_node_count_of_cpus": lambda state, want: all(len(state.nodes[name]) == count for name, count in want.items()),
    "disjoint_numa_nodes_of_cpus": lambda state, want: _disjoint([state.nodes[name] for name in want]),
}
