"""One sequence of pods through a policy: created, resized and deleted as a kubelet does, and compared step by step.

One job: :func:`play`. A container is given to the policy by the values that a kubelet gives to the runtime; its CPUs,
memory nodes and shares are those of its own adjustment with all updates since. Next: `nri.placement.recorded.cases`.
"""

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
from nri.placement.recorded.machines import make_policy, overridden

#: How a line begins that says which assertion does not hold.
UNMET = "assertion not met"

__all__ = ["ASSERTIONS", "UNMET", "SequenceRun", "differences", "play"]

_SCORES = {"Guaranteed": -997, "BestEffort": 1000}


@dataclass(slots=True)
class _KnownContainer:
    """A container as the kubelet made it."""

    pod: str
    qos: str
    quota_us: int
    memory_limit: int
    score: int
    container: Container


@dataclass(slots=True)
class SequenceRun:
    """A sequence on its way: the runtime's view of each container, and what each step did."""

    case: Mapping[str, Any]
    policy: Policy
    topology: Topology
    runtime: dict[str, Pins] = field(default_factory=dict)
    known: dict[str, _KnownContainer] = field(default_factory=dict)
    history: list[tuple[dict[str, Pins], list[str]]] = field(default_factory=list)

    def run(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each step's number with its outcome, in the words of the file."""
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
            if name in self.runtime:  # an empty list cannot be said in NRI, and leaves what was there
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
        for each in step["containers"]:
            name, capacity = each["name"], self.case["node_memory_capacity_bytes"]
            shares = cpu_shares(Fraction(each.get("cpu_request_m", 0), 1000))
            limit = each.get("cpu_limit_m", 0)
            quota = cpu_quota_us(Fraction(limit, 1000)) if limit else 0
            score = 1000 - 1000 * each.get("mem_request", 0) // capacity
            score = _SCORES.get(pod.qos, max(2, min(score, 999)))
            memory = each.get("mem_limit", 0)
            requests = estimated(pod.qos, shares, quota, CPU_PERIOD_US, memory, score, capacity)
            container = Container(name, name, pod, requests, shares=shares)
            container.hints = self._hints(container)
            self.runtime[name] = Pins("", "", shares)
            self.known[name] = _KnownContainer(pod.name, pod.qos, quota, memory, score, container)
            try:
                self._apply(self.policy.create(container))
            except NoPlace:
                refused.append(name)
                del self.runtime[name], self.known[name]
        return refused

    def _hints(self, container: Container) -> Mapping[str, Hint]:
        found = container.asks("test.topologyhints")
        if found is None or not self.case.get("topology_overrides", {}).get("test_topology_hint_annotation"):
            return {}
        hints, counts = {}, sources_of(container).counts
        for name, each in parse_text(Source("hints", found[1], "yaml")).items():
            cpus, nodes = each.get("CPUs", ""), each.get("NUMAs", "")
            if nodes and not cpus:
                present = (number for number in cpuset.parse(nodes) if number in self.topology.nodes)
                local = (self.topology.nodes[number].cpus for number in present)
                cpus = cpuset.to_text(number for numbers in local for number in numbers)
            if counts(each.get("Provider", "")):
                hints[name] = Hint(cpus, nodes, each.get("Sockets", ""))
        return hints

    def _delete(self, step: Mapping[str, Any]) -> list[str]:
        for pod in step["pods"]:
            names = [name for name, known in self.known.items() if known.pod == pod]
            for name in names:
                self._apply(self.policy.release(name))
            for name in names:
                del self.known[name], self.runtime[name]
        return []

    def _resize(self, step: Mapping[str, Any]) -> list[str]:
        name = step["container"]
        known = self.known.get(name)
        if known is None:
            return [name]
        shares = cpu_shares(Fraction(step["cpu_request_m"], 1000))
        limit = step.get("cpu_limit_m", 0)
        requests = estimated(
            known.qos,
            shares,
            cpu_quota_us(Fraction(limit, 1000)) if limit else known.quota_us,
            CPU_PERIOD_US,
            step.get("mem_limit", 0) or known.memory_limit,
            known.score,
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
    topology = overridden(topology, case.get("topology_overrides", {}))
    policy = make_policy(case["policy"], Machine.of(topology), case["config"], choices)
    return SequenceRun(case, policy, topology)


def differences(case: Mapping[str, Any], topology: Topology, choices: Choices) -> list[str]:
    """The differences, a line each; none if all is as recorded."""
    wanted = case.get("expected", {}).get("setup")
    try:
        run = play(case, topology, choices)
    except ValueError as error:
        return [] if wanted == "error" else [f"the configuration is refused: {error}"]
    if wanted == "error":
        return ["the configuration is taken, and should be refused"]
    found = [
        f"{UNMET}: {each}"
        for each in case.get("repo_assertions", ())
        if "after_step" not in each and not _has_zones(each.get("zone_attributes", {}), run.policy)
    ]
    for number, outcome in run.run():
        expect = case["steps"][number]["expect"]
        for key, nothing in (("changed", {}), ("errors_for", [])):
            mine, theirs = outcome.get(key, nothing), expect.get(key, nothing)
            if mine != theirs:
                found.append(f"step {number} ({case['steps'][number]['op']}) {key}: expected {theirs}, got {mine}")
    later = [assertion for assertion in case.get("repo_assertions", ()) if "after_step" in assertion]
    return found + [f"{UNMET}: {assertion}" for assertion in later if not _is_met(assertion, run)]


def _has_zones(wanted: Mapping[str, Mapping[str, str]], policy: Policy) -> bool:
    """Whether the zones of the node's NodeResourceTopology have these attributes."""
    zones = {zone["name"]: {each["name"]: each["value"] for each in zone["attributes"]} for zone in policy.node_zones()}
    return all(zones.get(name, {}).items() >= attributes.items() for name, attributes in wanted.items())


class _State(NamedTuple):
    """The state after a step: of each container its pins, CPUs and their nodes; which containers were refused."""

    pins: Mapping[str, Pins]
    cpus: Mapping[str, frozenset[int]]
    nodes: Mapping[str, frozenset[int]]
    refused: frozenset[str]


def _is_met(assertion: Mapping[str, Any], run: SequenceRun) -> bool:
    """Whether an assertion holds after its step; not where one of its containers is not there."""
    pins, refused = run.history[assertion["after_step"]]
    cpus = {name: cpuset.parse(each.cpus or "") for name, each in pins.items()}
    nodes = {name: frozenset(run.topology.cpus[n].node for n in numbers) for name, numbers in cpus.items()}
    state = _State(pins, cpus, nodes, frozenset(refused))
    words = [(word, wanted) for word, wanted in assertion.items() if word != "after_step"]
    if any(name not in pins for word, wanted in words if word != "create_fails" for name in wanted):
        return False
    return all(ASSERTIONS[word](state, wanted) for word, wanted in words)


def _disjoint(sets: list[frozenset[int]]) -> bool:
    return sum(map(len, sets)) == len(frozenset().union(*sets))


#: What an assertion may say after a step, and whether it is so.
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
