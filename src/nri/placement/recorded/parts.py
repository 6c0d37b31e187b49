"""Run cases of single components of placement: memory zones, CPU allocator, pools, CPU trees, classification, hints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nri.host.topology import MemoryKind, Node
from nri.kube.quantity import parse
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.allocator import CpuAllocator
from nri.placement.balloons.tree import Node as TreeNode
from nri.placement.balloons.tree import Preferences, TreeAllocator, build
from nri.placement.choices import Choices
from nri.placement.containers import Container, Hint, Pod
from nri.placement.machine import Group, Machine, Priority
from nri.placement.recorded.machines import Machines, make_policy
from nri.placement.topology_aware.options import Options
from nri.placement.topology_aware.policy import TopologyAware
from nri.placement.topology_aware.pools import Pool
from nri.placement.topology_aware.requests import CpuKind, Request, request_of
from nri.placement.topology_aware.scoring import Score, Scoring, affinity_score
from nri.placement.zones import DRAM, PMEM, PRESERVED, PRIORITIES, MemoryZones, NoMemory, parse_kinds
from nri.placement.zones import Request as MemoryRequest

#: A line for each difference.
Differences = Iterator[str]
Runner = Callable[[Mapping[str, Any], Machines, Choices], Differences]


def _compare(subject: str, expected: object, got: object) -> Differences:
    if expected != got:
        yield f"{subject}: expected {expected}, got {got}"


# -- memory zones -----------------------------------------------------------------------------------------------------


def _zones(case: Mapping[str, Any], _machines: Machines, choices: Choices) -> Differences:
    setup = case["setup"]
    node_types = setup["node_types"]
    kinds: dict[str, MemoryKind] = {"DRAM": "dram", "PMEM": "pmem", "HBM": "hbm"}
    nodes = {
        number: Node(
            number,
            frozenset({2 * number, 2 * number + 1}),
            setup.get("capacity_bytes_per_node", 4),
            kinds[node_type],
            dict(enumerate(setup["distances"][number])),
            number not in setup.get("movable_nodes", ()),
        )
        for number, node_type in enumerate(node_types)
    }
    zones = MemoryZones(nodes, choices.trials_leave_no_zone)
    for place, step in enumerate(case.get("sequence", ())):
        if "bytes" in step:
            yield from _allocate(zones, step, f"step {place}")
        if "realloc_nodes" in step or "realloc_types" in step:
            new_nodes = masks.of(step.get("realloc_nodes", ()))
            try:
                got, _ = zones.widen(step["id"], new_nodes, parse_kinds(step.get("realloc_types", ())))
            except NoMemory:
                got = 0
            yield from _compare(f"step {place} again", step["expect_realloc_nodes"], list(masks.members(got)))
        users = step.get("then_release", list(zones.zones) if step.get("then") == "reset all" else ())
        for user in users:
            zones.release(user)
    for expansion in case.get("expansions", ()):
        zone = masks.of(expansion["start"])
        for added in expansion["added_per_round"]:
            new = zones.expand(zone, parse_kinds(expansion["types"]))
            yield from _compare(f"expansion of {expansion['start']}", added, list(masks.members(new)))
            zone |= new
    for lookup in case.get("lookups", ()):
        local = [number for number, node in nodes.items() if node.cpus & set(lookup["cpus"])]
        yield from _compare(f"nodes of CPUs {lookup['cpus']}", lookup["nodes"], local)


def _allocate(zones: MemoryZones, step: Mapping[str, Any], subject: str) -> Differences:
    qos = step.get("qos", "burstable")
    priority = {name.lower(): value for name, value in PRIORITIES.items()}[qos]
    request = MemoryRequest(
        step["id"],
        step["bytes"],
        masks.of(step.get("affinity_nodes", ())),
        0 if step.get("preserve") else parse_kinds(step["types"]),
        PRESERVED if step.get("preserve") else priority,
        step.get("strict", False),
    )
    try:
        offer = zones.allocate(request)
    except NoMemory as error:
        yield from _compare(subject, step.get("expect", "nodes"), "error" if "expect" in step else str(error))
        return
    yield from _compare(subject, step.get("expect_nodes"), list(masks.members(offer.zone)))
    moved = {user: list(masks.members(zone)) for user, zone in offer.moved.items()}
    yield from _compare(f"{subject} moved", step.get("expect_moved", {}), moved)


# -- the CPU allocator ------------------------------------------------------------------------------------------------


def _allocator(case: Mapping[str, Any], machines: Machines, choices: Choices) -> Differences:
    machine = Machine.of(machines.get(case["topology"]))
    machine = replace(machine, efficient=0, performance=machine.online, clusters=(), cache_groups=())
    priorities = case.get("priorities", {})
    listed = {name: masks.parse(cpus) for name, cpus in priorities.items() if cpus[:1].isdigit()}
    remaining = machine.packages[0] & ~sum(listed.values())
    high, normal, low = (listed.get(name, remaining if name in priorities else 0) for name in ("high", "normal", "low"))
    if priorities:
        machine = replace(machine, priorities=(high, normal, low))
    for place, request in enumerate(case["requests"]):
        clusters = case["cluster_sets"][request["clusters"]] if "clusters" in request else case.get("clusters")
        clustered = _with_clusters(machine, clusters) if clusters else machine
        try:
            got = CpuAllocator(clustered, choices.caches_beside_idle_ones).allocate(
                masks.parse(request["from"]),
                request["count"],
                Priority.named(request.get("prefer", case.get("prefer"))),
            )
        except ValueError:
            got = 0
        yield from _compare(f"request {place}", masks.text(masks.parse(request["expect"])), masks.text(got))


def _with_clusters(machine: Machine, clusters: Mapping[str, list[str]]) -> Machine:
    groups = [
        Group(int(package[3:]), 0, number, masks.parse(cluster.split("(")[0]), cluster.endswith("(E)"))
        for package, package_clusters in clusters.items()
        for number, cluster in enumerate(package_clusters)
    ]
    efficient = sum(group.cpus for group in groups if group.efficient)
    if not efficient:  # the allocator uses clusters only if cores differ
        return replace(machine, cache_groups=tuple(sorted(groups)))
    performance = machine.online & ~efficient
    return replace(
        machine,
        clusters=tuple(sorted(groups)),
        efficient=efficient,
        performance=performance,
        priorities=(0, performance, efficient),
    )


# -- pools ------------------------------------------------------------------------------------------------------------


def _pools(case: Mapping[str, Any], machines: Machines, choices: Choices) -> Differences:
    for place, check in enumerate(case["checks"]):
        machine = Machine.of(machines.get(check.get("topology", case.get("topology"))))
        policy = make_policy("topology-aware", machine, case["config"], choices)
        assert isinstance(policy, TopologyAware)
        pools = policy.pools
        if "pools" in check:
            leaf = next(pool for pool in pools.by_id if not pool.children)
            got = (len(pools.by_id), leaf.cpus.bit_count(), pools.root.cpus.bit_count())
            yield from _compare(f"check {place}", (check["pools"], check["leaf_cpus"], check["root_cpus"]), got)
            continue
        values = {**case.get("request", {}), **check}
        request = Request(_container(values), values["exclusive_cpus"], 0, memory_kinds=DRAM)
        if values.get("reserved_request"):
            request.kind = CpuKind.RESERVED
        best = _best_pool(policy, request, check.get("affinity", {}))
        if "best" in check:
            yield from _compare(f"check {place}", check["best"], best.name)
        else:
            yield from _compare(f"check {place}", check["best_pool_is_leaf"], not best.children)


def _container(request: Mapping[str, Any]) -> Container:
    memory = request.get("mem", request.get("mem_request", 0))
    requests = Requests(1000 * request["exclusive_cpus"], 0, memory, request.get("mem_limit", memory))
    return Container("one", "one", Pod("pod", "pod", qos="Guaranteed"), requests)


def _best_pool(policy: TopologyAware, request: Request, affinity: Mapping[str, int]) -> Pool:
    weights = {policy.pools.by_name[name].id: weight for name, weight in affinity.items()}
    scores = []
    for pool in policy.pools.by_id:
        score = Score.of(pool, request, policy.machine)
        score.affinity = affinity_score(weights, pool)
        nodes = pool.memory_of(DRAM | PMEM)
        score.offer = policy.zones.offer(MemoryRequest("one", request.memory_bytes, nodes, DRAM, 2))
        scores.append(score)
    return Scoring(request, policy.zones, policy.level, policy.choices).sort(scores)[0].pool


def _hint_scores(case: Mapping[str, Any], _machines: Machines, _choices: Choices) -> Differences:
    for place, row in enumerate(case["cases"]):
        level = {"cpu-hint": "numa", "numa-hint": "numa", "socket-hint": "package"}.get(row["fn"], "numa")
        node, package = row.get("pool_node"), row.get("pool_socket")
        cpus = masks.parse(row.get("pool_cpus", ""))
        pool = Pool("pool", level, None, cpus, -1 if package is None else package, [] if node is None else [node])
        default = row.get("hint", "")
        hint = Hint(row.get("hint_cpus", default), row.get("hint_numas", default), row.get("hint_sockets", default))
        yield from _compare(f"hint {place}", row["score"], pool.hint_score(hint))


def _preferences(case: Mapping[str, Any], _machines: Machines, choices: Choices) -> Differences:
    for place, row in enumerate(case["cases"]):
        millicpu = int(parse(row["cpu_request"] or 0) * 1000)
        pod = Pod(
            "pod",
            "pod",
            row.get("namespace", "default"),
            qos=row["qos"] or "BestEffort",
            annotations=row.get("annotations", {}),
        )
        container = Container("c", "testcontainer", pod, Requests(millicpu, 0, 0, 0))
        options = Options(**{"reservedResources": None, **row["config"]})
        options = replace(options, reservedPoolNamespaces=row.get("reservedPoolNamespaces", []))
        got = request_of(container, options, choices, MemoryZones({}))
        outcome = {
            "exclusive_cpus": got.exclusive,
            "shared_milli_cpu": got.shared_m,
            "isolated": got.isolated,
            "cpu_type": got.kind.value,
        }
        yield from _compare(f"row {place}", row["expect"], outcome)


# -- CPU trees --------------------------------------------------------------------------------------------------------


def _trees(case: Mapping[str, Any], machines: Machines, choices: Choices) -> Differences:
    shape = case["topology"]
    described = {"shape": {"kind": "tree", **shape}} if isinstance(shape, dict) else {}
    topology = Machines(described, machines.folder).get("shape") if described else machines.get(shape)
    root = build(Machine.of(topology), choices.packages_have_their_own_cpus)
    if "sequence" in case:
        yield from _near_devices(case, root)
    elif "pairs" in case:
        for count, size in case["pairs"]:
            add, _ = TreeAllocator(root, Preferences()).resize(0, root.cpus, count)
            yield from _compare(f"{count} CPUs", size, add.bit_count())
    elif "candidate_sizes" in case:
        yield from _inflate(case, root)
    elif "deltas" in case or "release_one_at_a_time_left_within" in case:
        yield from _deflate(case, root)
    else:
        yield from _separate_sets(case, root)


def _inflate(case: Mapping[str, Any], root: TreeNode) -> Differences:
    have, free = 0, root.cpus
    allocator = TreeAllocator(root, Preferences())
    for delta, size, level in zip(
        (1, 1, 1, 1, 1, 3, 6, 1, 1), case["candidate_sizes"], case["all_within"], strict=True
    ):
        add, _ = allocator.resize(have, free, delta)
        yield from _compare(f"candidates for {delta} more", size, add.bit_count())
        added = masks.of(list(masks.members(add))[:delta])
        have, free = have | added, free & ~added
        yield from _compare(f"{have.bit_count()} CPUs within one {level}", True, _is_within_level(root, have, level))


def _is_within_level(root: TreeNode, cpus: int, level: str) -> bool:
    return any(node.level == level and cpus & ~node.cpus == 0 for node in root.walk())


def _deflate(case: Mapping[str, Any], root: TreeNode) -> Differences:
    have = masks.of(case["start"])
    free = root.cpus & ~have
    allocator = TreeAllocator(root, Preferences())
    levels = case.get("release_one_at_a_time_left_within", ["(any)", "package", "die", "numa"])
    level_names = {"(any)": "system", "package": "package", "die": "die", "numa": "numa", "core": "core"}
    for place, delta in enumerate(case.get("deltas", [-1] * (len(case["start"]) - 1))):
        _, remove = allocator.resize(have, free, delta)
        remove = masks.of(list(masks.members(remove))[:-delta])
        have, free = have & ~remove, free | remove
        if "deltas" not in case or place == 3:
            level = level_names[levels[place].split(" ")[0]]
            yield from _compare(f"after release {place} within one {level}", True, _is_within_level(root, have, level))


def _separate_sets(case: Mapping[str, Any], root: TreeNode) -> Differences:
    balancing = "spread" in case["id"]
    free, sets = root.cpus, []
    for _ in range(8):
        add, _ = TreeAllocator(root, Preferences(balancing=balancing)).resize(0, free, 1)
        sets.append(1 << masks.first(add))
        free &= ~sets[-1]
    limits = [(2, "package"), (4, "die"), (8, "numa")] if balancing else [(2, "core"), (4, "numa")]
    for count, level in limits:
        places = [next(n.name for n in root.walk() if n.level == level and n.cpus & cpus) for cpus in sets[:count]]
        expected = count if balancing else 1
        yield from _compare(f"places of level {level} of the first {count} sets", expected, len(set(places)))


def _near_devices(case: Mapping[str, Any], root: TreeNode) -> Differences:
    close_devices, far_devices = ([f"{kind}{n}" for n in range(len(case[key]))] for kind, key in _DEVICES)
    devices = {f"{kind}{n}": [masks.parse(cpus)] for kind, key in _DEVICES for n, cpus in enumerate(case[key])}
    preferences = Preferences(case["balancing"], case["spread_cores"], close_devices, far_devices, devices)
    allocator = TreeAllocator(root, preferences)
    sets, free = {1: 0, 2: 0}, root.cpus
    for place, step in enumerate(case["sequence"]):
        which, delta = step["set"], step["delta"]
        add, remove = allocator.resize(sets[which], free, delta)
        chosen = masks.of(list(masks.members(add if delta > 0 else remove))[: abs(delta)])
        sets[which] ^= chosen
        free ^= chosen
        checked = sets[which] if delta < 0 else chosen
        if "within" in step:
            yield from _compare(f"step {place} outside", 0, checked & ~masks.parse(step["within"]))
        if "avoid" in step:
            yield from _compare(f"step {place} in {step['avoid']}", 0, chosen & masks.parse(step["avoid"]))
        if "equals" in step:
            yield from _compare(f"step {place}", step["equals"], masks.text(checked))


_DEVICES = (("near", "prefer_close"), ("off", "prefer_far"))

#: The function that runs a case, by group of the file.
RUNNERS: dict[str, Runner] = {
    "memory_zone_cases": _zones,
    "cpu_allocator_cases": _allocator,
    "pool_cases": _pools,
    "cpu_tree_cases": _trees,
    "cpu_preference_cases": _preferences,
    "hint_score_cases": _hint_scores,
}
