"""Any pods on any machine: no CPU twice, no exclusive CPU shared, nothing left, nothing raised."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nri.config import Source, read
from nri.host.topology import Topology
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.balloons.policy import Balloons
from nri.placement.choices import Choices
from nri.placement.containers import Container, NoPlace, Pins
from nri.placement.machine import Machine
from nri.placement.recorded.machines import with_overrides
from nri.placement.state import PlacementState, json_entries, patch_tree
from nri.placement.topology_aware.policy import TopologyAware
from tests.support.placement import GIB, balloons, container, guest, numa_off, topology_aware, with_memory

Policy = TopologyAware | Balloons

SHAPES = [guest(), guest(1, 1, 4, 2), guest(2, 1, 6, 2), guest(1, 2, 8, 1), guest(4, 1, 2, 1)]
ISOLATED = replace(SHAPES[0], isolated=frozenset({6, 7, 10, 11}))
SPARSE = replace(
    SHAPES[0],
    cpus={n * 273: replace(cpu, number=n * 273, threads=frozenset(t * 273 for t in cpu.threads), caches=())
          for n, cpu in SHAPES[0].cpus.items()},
    nodes={n: replace(node, cpus=frozenset(c * 273 for c in node.cpus)) for n, node in SHAPES[0].nodes.items()},
    present=frozenset(range(4096)),
)  # fmt: skip
OFF = replace(
    SHAPES[0], cpus={n: cpu for n, cpu in SHAPES[0].cpus.items() if n not in (5, 9)}, offline=frozenset({5, 9})
)
#: A memory node all of whose CPUs are off line.
NODE_OFF = replace(
    SHAPES[0], cpus={n: cpu for n, cpu in SHAPES[0].cpus.items() if cpu.node != 1}, offline=SHAPES[0].nodes[1].cpus
)
HYBRID = with_overrides(SHAPES[2], {"performance_cores": "0-7", "efficient_cores": "8-23"})
#: Packages of memory nodes of caches: pools in three levels, so that there are some between.
CACHES = guest(2, 2, 8, 2, l3_groups="")

#: Sub-NUMA clustering: packages of four memory nodes each, with the distances of a Sapphire Rapids.
SNC = guest(2, 4, 2, 2, distances=[
    [10 if one == other else 12 if one // 4 == other // 4 else 21 for other in range(8)] for one in range(8)
])  # fmt: skip
#: Every other memory node has only CPUs: its memory slots are empty.
BARE = replace(SNC, nodes={n: replace(node, memory_bytes=n % 2 * 2 * GIB) for n, node in SNC.nodes.items()})
CXL, HBM, PMEM = with_memory("pmem", 16, True), with_memory("hbm", 1, True), with_memory("pmem", 16, False)
machines = st.sampled_from(
    [*SHAPES, ISOLATED, SPARSE, OFF, NODE_OFF, HYBRID, numa_off(), CACHES, SNC, BARE, CXL, HBM, PMEM]
)
modes = st.sampled_from([Choices.DEFAULT, Choices.REFERENCE])

ANNOTATIONS = [
    {},
    {"prefer_shared_cpus": "true"},
    {"prefer_shared_cpus": "false"},
    {"prefer_isolated_cpus/pod": "true"},
    {"hide_hyperthreads": "true"},
    {"cpu.preserve": "true"},
    {"memory.preserve": "true"},
    {"prefer_reserved_cpus": "true"},
    {"unlimited_burstable": "numa"},
    {"memory_type": "pmem"},
    {"memory_type": "hbm,dram"},
    {"memory_type": "mixed"},
    {"cold_start": "{duration: 60s}"},
    {"prefer_cpu_priority": "low"},
    {"balloon.balloons": "small"},
    {"balloon.balloons": "pair"},
    {"balloon.balloons": "nosuch"},
]


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, int, int]:
    qos = draw(st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]))
    cpu = draw(st.sampled_from([0, 1, 100, 500, 1000, 1500, 2000, 2500, 4000, 9000])) if qos != "BestEffort" else 0
    return qos, cpu, draw(st.sampled_from([0, GIB // 8, GIB, 3 * GIB]))


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, str, object]]:
    matches: list[tuple[str, str, object]] = []
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["create", "create", "create", "release", "resize"]))
        if kind == "create":
            qos, cpu, memory = draw(requests())
            one = container(f"c{number}", cpu, memory, qos, pod=f"p{draw(st.integers(0, 3))}",
                            namespace=draw(st.sampled_from(["default", "kube-system", "web", "pair"])),
                            **draw(st.sampled_from(ANNOTATIONS)))  # fmt: skip
            matches.append((kind, one.id, one))
        else:
            _, cpu, memory = draw(requests())
            matches.append((kind, f"c{draw(st.integers(0, 11))}", Requests(cpu, cpu, memory, memory)))
    return matches


def make(name: str, topology: Topology, choices: Choices) -> Policy:
    if name == "topology-aware":
        return topology_aware(topology, choices, colocatePods=True, reservedResources={"cpu": "1"})
    types = [
        {"name": "small", "maxCPUs": 2, "minCPUs": 1, "preferNewBalloons": True, "shareIdleCPUsInSame": "package"},
        {"name": "web", "namespaces": ["web"], "maxBalloons": 2, "preferSpreadingPods": True,
         "preferCoreType": "efficient", "memoryTypes": ["HBM", "DRAM"]},
        {"name": "left", "minCPUs": 1},
        {"name": "right", "maxCPUs": 3, "shareIdleCPUsInSame": "numa"},
        {"name": "pair", "namespaces": ["pair"], "shareIdleCPUsInSame": "numa",
         "components": [{"balloonType": "left"}, {"balloonType": "left"}, {"balloonType": "right"}]},
    ]  # fmt: skip
    return balloons(*types, topology=topology, choices=choices)


def copied(one: Container) -> Container:
    return Container(one.id, one.name, one.pod, one.requests)


def play(policy: Policy, sequence: list[tuple[str, str, object]]) -> list[dict[str, Pins] | str]:
    """Do all steps, and check what holds after each; a refusal is an outcome."""
    matches: list[dict[str, Pins] | str] = []
    for kind, name, what in sequence:
        before = all_of(policy)
        try:
            if isinstance(what, Container):
                matches.append(policy.create(copied(what)))
            elif kind == "resize":
                assert isinstance(what, Requests)
                matches.append(policy.resize(name, what))
            else:
                matches.append(policy.release(name))
        except NoPlace as error:
            matches.append(error.reason)
            assert policy.choices is not Choices.DEFAULT or all_of(policy) == before, "a refusal changed something"
        check(policy)
    return matches


def all_of(policy: Policy) -> list[object]:
    """All that a policy has given, but for the order of what is equal."""
    pins, zones = dict(policy.pins), dict(policy.zones.zones)
    requests = {name: entry.requests for name, entry in policy.containers.items()}
    if isinstance(policy, Balloons):
        sizes = [(*(part.cpus for part in entry.parts()), entry.idle, entry.requested_m) for entry in policy.balloons]
        return [pins, zones, requests, sizes, [dict(entry.pods) for entry in policy.balloons]]
    return [pins, zones, requests, dict(policy.grants), pinned(policy)]


def check(policy: Policy) -> None:
    if policy.choices.idle_containers_have_a_cpu or isinstance(policy, Balloons):
        assert "" not in {pins.cpus for pins in policy.pins.values()}, "a container has no CPU"
    if policy.choices is Choices.DEFAULT:
        empty = policy.zones.all & ~policy.zones.with_memory
        assert not any(masks.parse(pins.mems or "") & empty for pins in policy.pins.values()), "memory without memory"
    if isinstance(policy, Balloons):
        sets = [policy.free, *(balloon.cpus for balloon in policy.balloons)]
        assert not any(one & other for one, other in combinations(sets, 2)), "a CPU is in two balloons"
        assert sum(sets) == policy.types.allowed, "a CPU is lost"
        assert all(balloon.idle & ~policy.free == 0 for balloon in policy.balloons), "idle CPUs are somebody's"
        assert not policy.choices.balloons_keep_their_limit or all(place.free_m >= 0 for place in policy.places())
        return
    exclusive = [grant.exclusive for grant in policy.grants.values()]
    assert not any(one & other for one, other in combinations(exclusive, 2)), "a CPU is granted twice"
    total = sum(exclusive)
    for pool in policy.pools.by_id:
        assert not total & (pool.free_sharable | pool.free_isolated), "an exclusive CPU is shared"
        assert pool.free_sharable == pool.sharable & ~total, "a CPU is lost"
        assert pool.shared_m >= 0
        if policy.choices.lower_pools_keep_their_shares:
            assert pool.own_shared_m() >= 0, "more is promised than there is"
        assert pool.reserved_m >= 0


@given(machines, modes, st.sampled_from(["topology-aware", "balloons"]), steps())
def test_no_cpu_is_granted_twice_or_lost_and_all_are_released(
    topology: Topology, choices: Choices, name: str, sequence: list[tuple[str, str, object]]
) -> None:
    policy = make(name, topology, choices)
    empty = make(name, topology, choices)
    play(policy, sequence)
    for one in list(policy.containers):
        policy.release(one)
        check(policy)
    assert policy.zones.zones == {}
    if isinstance(policy, TopologyAware) and isinstance(empty, TopologyAware):
        assert all(pool.shared_m == pool.reserved_m == pool.idlers == 0 for pool in policy.pools.by_id)
        assert [pool.free_sharable for pool in policy.pools.by_id] == [pool.sharable for pool in empty.pools.by_id]
    elif isinstance(policy, Balloons) and isinstance(empty, Balloons) and choices is Choices.DEFAULT:
        assert not any(balloon.pods for balloon in policy.balloons)
        assert len(policy.balloons) == len(empty.balloons)


@given(machines, modes, st.sampled_from(["topology-aware", "balloons"]),
       st.lists(st.tuples(st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]),
                          st.sampled_from([0, GIB // 8, 3 * GIB])), min_size=1, max_size=3))  # fmt: skip
def test_exclusive_containers_on_a_full_machine_leave_cpus_to_shared_containers(
    topology: Topology, choices: Choices, name: str, idle: list[tuple[str, int]]
) -> None:
    first, *later = [container(f"idle{n}", 0, memory, qos) for n, (qos, memory) in enumerate(idle)]
    own_entry = [container(f"own{number}", 1000) for number in topology.online]
    policy = make(name, topology, choices)
    play(policy, [("create", one.id, one) for one in (first, *own_entry, *later)])
    if choices is Choices.DEFAULT:
        cpus = {one.id: policy.pins[one.id].cpus for one in (first, *later) if one.id in policy.containers}
        fits = first.requests.memory_bytes <= sum(node.memory_bytes for node in topology.nodes.values())
        assert "idle0" in cpus or not fits, "it came first, and was refused"
        assert all(cpus.values()), f"some that ask for none have no CPU: {cpus}"


def remade(policy: Policy, names: list[str]) -> Policy:
    """A new policy with the saved state of this one, and the adjusted containers as a runtime reports them."""
    state = read(PlacementState, [Source("state", json.dumps(policy.saved().tree()), "json")])
    messages = {name: copied(policy.containers[name]) for name in names}
    for one in messages.values():
        one.requests = Requests(1)
    state.restore(messages.values())
    if isinstance(policy, Balloons):
        return Balloons(policy.machine, policy.options, policy.choices, state=state, containers=messages)
    return TopologyAware(policy.machine, policy.options, policy.choices, state, messages)


@given(machines, st.sampled_from(["topology-aware", "balloons"]), steps())
def test_a_restored_policy_has_the_same_state(
    topology: Topology, name: str, sequence: list[tuple[str, str, object]]
) -> None:
    policy = make(name, topology, Choices.DEFAULT)
    play(policy, sequence)
    for names in (list(policy.containers), sorted(policy.containers, reverse=True)):
        second = remade(policy, names)
        check(second)
        assert assigned_cpus(second) == assigned_cpus(policy)
        if isinstance(policy, TopologyAware):
            assert list(second.containers) == [one for one in names if one in second.containers], "they changed places"
        missing = {one for one in policy.containers if one not in second.containers}
        assert not any(policy.pins.get(one) for one in missing), "a container was not taken up again"
        assert pinned(second) == pinned(policy)
        if all(one in policy.zones.zones for one in policy.pins):  # one that found no memory may find some now
            assert second.pins == policy.pins
            assert second.zones.zones == policy.zones.zones


@given(machines, st.sampled_from(["topology-aware", "balloons"]), steps())
def test_saved_increments_equal_the_complete_saved_state(
    topology: Topology, name: str, sequence: list[tuple[str, str, object]]
) -> None:
    policy = make(name, topology, Choices.DEFAULT)
    policy.changed_entries()
    written = {"all": policy.saved(), "news": policy.saved()}
    trees = {way: json.loads(json.dumps(state.tree())) for way, state in written.items()}
    for number, step in enumerate(sequence):
        play(policy, [step])
        if number % 3 == 1:
            continue  # as after an end that changes no other container, which is written with what follows
        now = policy.saved()
        for way, entries in (("all", now.since(written["all"])), ("news", policy.changed_entries())):
            changes = written[way].take(entries)
            if changes is None:
                written[way], trees[way] = policy.saved(), json.loads(json.dumps(now.tree()))
            else:
                patch_tree(trees[way], json.loads(json.dumps(json_entries(changes))))
            assert written[way] == now
            assert read(PlacementState, [Source("state", json.dumps(trees[way]), "json")]) == now
            assert list(trees[way]["balloons"]) == [str(entry) for entry in getattr(policy, "balloons", ())], "in order"


@given(machines, machines, st.sampled_from(["topology-aware", "balloons"]), steps())
def test_cpus_missing_on_another_machine_are_not_restored(
    topology: Topology, other: Topology, name: str, sequence: list[tuple[str, str, object]]
) -> None:
    policy = make(name, topology, Choices.DEFAULT)
    play(policy, sequence)
    policy.machine = Machine.of(other)
    second = remade(policy, list(policy.containers))
    check(second)
    for one in list(second.containers):
        second.release(one)
    check(second)
    assert second.zones.zones == {}


@given(machines, st.sampled_from(["topology-aware", "balloons"]), steps())
def test_the_same_events_have_the_same_outcome(
    topology: Topology, name: str, sequence: list[tuple[str, str, object]]
) -> None:
    first, second = (play(make(name, topology, Choices.DEFAULT), sequence) for _ in range(2))
    assert first == second


@given(machines, st.sampled_from(["topology-aware", "balloons"]), st.permutations(range(4)),
       st.sampled_from([0, 500, 1000]), st.sampled_from([{}, {"balloon.balloons": "small"}]))  # fmt: skip
def test_equal_containers_have_equal_places_in_any_order(
    topology: Topology, name: str, order: list[int], cpu_m: int, annotations: dict[str, str]
) -> None:
    """The order of equal containers does not matter: the places are the same, and the first gets the best."""
    outcomes = []
    for numbers in (range(4), order):
        policy = make(name, topology, Choices.DEFAULT)
        for number in numbers:
            policy.create(container(f"c{number}", cpu_m, pod=f"p{number}", **annotations))
        outcomes.append([policy.pins.get(f"c{number}") for number in numbers])
    assert outcomes[0] == outcomes[1]


@given(machines, steps())
def test_a_refusal_changes_nothing(topology: Topology, sequence: list[tuple[str, str, object]]) -> None:
    for name in ("topology-aware", "balloons"):
        policy = make(name, topology, Choices.DEFAULT)
        play(policy, sequence)
        before = (dict(policy.zones.zones), sorted(policy.containers), pinned(policy))
        for _ in range(2):
            try:
                policy.create(container("huge", 60_000_000))
            except NoPlace:
                pass
            else:
                raise AssertionError("there is no such machine")
            assert (dict(policy.zones.zones), sorted(policy.containers), pinned(policy)) == before


def assigned_cpus(policy: Policy) -> dict[str, int]:
    """The CPUs of each container, without those that it shares with all others."""
    if isinstance(policy, Balloons):
        return {one: balloon.cpus for balloon in policy.balloons for one in balloon.containers}
    return {one: grant.exclusive for one, grant in policy.grants.items()}


def pinned(policy: Policy) -> list[int]:
    if isinstance(policy, Balloons):
        return [policy.free, *(balloon.cpus for balloon in policy.balloons)]
    return [cpus for pool in policy.pools.by_id for cpus in (pool.free_sharable, pool.shared_m, pool.idlers)]


@given(st.sets(st.integers(0, 4095), max_size=40))
def test_masks_behave_like_sets(numbers: set[int]) -> None:
    mask = masks.of(numbers)
    assert list(masks.members(mask)) == sorted(numbers)
    assert masks.parse(masks.text(mask)) == mask
    assert masks.first(mask) == min(numbers, default=-1)
