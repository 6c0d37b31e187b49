"""balloons on a machine of four memory nodes with four CPUs each. Deviations show both modes."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.balloons.options import BalloonType, Options
from nri.placement.balloons.policy import Balloons
from nri.placement.choices import Choices
from nri.placement.containers import NoPlace, Pins
from nri.placement.recorded.machines import with_overrides
from nri.placement.state import PartState, PlacementState
from tests.support.placement import GIB, balloons, container, guest, numa_off, with_memory

MODES = (Choices.DEFAULT, Choices.REFERENCE)


def sizes(policy: Balloons) -> dict[str, int]:
    return {str(balloon): balloon.cpus.bit_count() for balloon in policy.balloons}


def test_a_balloon_resizes_with_its_containers_and_ends_with_the_last() -> None:
    policy = balloons({"name": "web", "namespaces": ["web"], "maxCPUs": 4})
    for name, cpu_m, size in (("a", 1500, 2), ("b", 700, 3), ("c", 1800, 4), ("d", 1000, 1)):
        policy.create(container(name, cpu_m, pod=f"pod-{name}", namespace="web"))
        assert sizes(policy)["web[0]" if name != "d" else "web[1]"] == size
    for name in "abcd":
        policy.release(name)
    assert sizes(policy) == {"reserved[0]": 1, "default[0]": 0}
    assert policy.release("nobody") == {}


def test_an_error_lists_the_balloons_that_could_not_take_a_container() -> None:
    policy = balloons({"name": "web", "maxCPUs": 2, "maxBalloons": 1, "preferNewBalloons": True})
    wants = {"balloon.balloons": "web"}
    policy.create(container("a", 1500, **wants))
    with pytest.raises(NoPlace, match=r"web\[0\] has 500m free and can grow to 500m; no new balloon, because"):
        policy.create(container("b", 1000, **wants))
    with pytest.raises(NoPlace, match="unknown type of balloons 'wbe'; types are reserved, web, default"):
        policy.create(container("c", 1000, **{"balloon.balloons": "wbe"}))


def test_groups_namespaces_and_pods_stay_together_or_apart() -> None:
    policy = balloons(
        {"name": "group", "groupBy": "${pod/namespace}", "namespaces": ["g*"], "preferSpreadingPods": True},
        {"name": "own", "preferPerNamespaceBalloon": True, "preferSpreadingPods": True, "namespaces": ["o*"]},
        {"name": "spread", "preferNewBalloons": True, "preferSpreadingPods": True},
    )
    for n, namespace in enumerate(("g1", "g1", "o1", "o2", "o1")):
        policy.create(container(str(n), 100, namespace=namespace))
    for n in "ab":
        policy.create(container(n, 100, pod="one", **{"balloon.balloons": "spread"}))
    members = {str(balloon): balloon.containers for balloon in policy.balloons if balloon.pods}
    assert members == {
        "group[0]": ["0", "1"],
        "own[0]": ["2", "4"],
        "own[1]": ["3"],
        "spread[0]": ["a"],
        "spread[1]": ["b"],
    }


def test_a_composite_has_equal_components_or_prefers_the_rarest() -> None:
    parts = {"components": [{"balloonType": "a"}, {"balloonType": "b"}]}
    policy = balloons({"name": "a"}, {"name": "b"}, {"name": "all", **parts},
                      {"name": "one", "componentCreation": "balance-balloons", **parts})  # fmt: skip
    policy.create(container("x", 4000, **{"balloon.balloons": "all"}))
    policy.create(container("y", 1000, **{"balloon.balloons": "one"}))
    total, one = policy.balloons[-2:]
    assert [part.cpus.bit_count() for part in total.components] == [2, 2]
    assert [part.type.name for part in one.components] == ["a"]
    policy.release("x")
    assert policy.free.bit_count() == 14


def test_balloons_with_the_same_load_are_separated() -> None:
    policy = balloons(
        {"name": "net", "loads": ["net"], "preferNewBalloons": True, "preferSpreadingPods": True},
        loadClasses=[{"name": "net", "level": "core", "overloadsLevelInBalloon": True}],
    )
    for n in "abc":
        policy.create(container(n, 1000, **{"balloon.balloons": "net"}))
    cores = [policy.machine.cores[masks.first(balloon.cpus)] for balloon in policy.balloons[-3:]]
    assert len(set(cores)) == 3


def test_all_loads_of_a_type_spread_if_one_spreads_within_its_balloon() -> None:
    machine = with_overrides(guest(1, 1, 8, 1), {"cache_override": [{"level": 2, "cpusets": ["0-3", "4-7"]}]})
    loads = [{"name": "mem", "level": "l2cache"}, {"name": "avx", "level": "core", "overloadsLevelInBalloon": True}]
    for names, actual in ((["mem"], "1-2"), (["avx", "mem"], "1,4")):
        policy = balloons({"name": "busy", "loads": names}, topology=machine, loadClasses=loads)
        assert policy.create(container("a", 2000, **{"balloon.balloons": "busy"}))["a"].cpus == actual


def test_listed_reserved_cpus_are_preferred_and_must_exist() -> None:
    policy = balloons(reservedResources={"cpu": "cpuset:2-3"}, availableResources={"cpu": "cpuset:0-7"})
    assert policy.create(container("dns", 100, namespace="kube-system"))["dns"].cpus == "2"
    for spec, words in (
        ({"reservedResources": {"cpu": "cpuset:99"}}, "99 are not among"),
        ({"availableResources": {"cpu": "4"}}, "write a list"),
        ({"balloonTypes": [{"name": "reserved", "minCPUs": 3}]}, "1 CPUs conflict with"),
        (
            {"balloonTypes": [{"name": "a", "minBalloons": 9, "minCPUs": 5}]},
            "cannot create 9 balloons a with minCPUs 5: ",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            balloons(**spec)  # type: ignore[arg-type]


def test_expressions_can_use_the_qos_class_of_a_pod() -> None:
    """`pod_class_is_known`: in nri-plugins no expression matches the class."""
    burst = {"key": "pod/qosclass", "operator": "Equals", "values": ["Burstable"]}
    for choices, expected in ((Choices.DEFAULT, "burst[0]"), (Choices.REFERENCE, "default[0]")):
        policy = balloons({"name": "burst", "matchExpressions": [burst]}, choices=choices)
        policy.create(container("a", 500, qos="Burstable"))
        assert policy.explain("a").place == expected


def test_mixed_memory_is_all_kinds() -> None:
    """`mixed_memory_in_balloons`: nri-plugins ignores the value."""
    machine = guest(1, 2)
    machine = replace(machine, nodes=machine.nodes | {1: replace(machine.nodes[1], kind="pmem")})
    for choices, expected in ((Choices.DEFAULT, "0-1"), (Choices.REFERENCE, "0")):
        policy = balloons(topology=machine, choices=choices)
        assert policy.create(container("a", 500, memory_type="mixed"))["a"].mems == expected


def test_listed_reserved_cpus_are_assigned_to_no_other_balloon() -> None:
    """`reserved_cpus_stay_reserved`: nri-plugins assigns them when no other CPUs are free, and shares idle ones."""
    for choices, remaining in ((Choices.DEFAULT, True), (Choices.REFERENCE, False)):
        policy = balloons(
            {"name": "web", "shareIdleCPUsInSame": "system", "namespaces": ["default"]},
            reservedResources={"cpu": "cpuset:0-1"},
            availableResources={"cpu": "cpuset:0-7"},
            choices=choices,
        )
        pinned = masks.parse(policy.create(container("a", 1000))["a"].cpus or "")
        assert (not pinned & 0b11) == remaining
        dns = container("dns", 2000, namespace="kube-system")
        if remaining:
            with pytest.raises(NoPlace, match="5 free CPUs"):
                policy.create(container("b", 7000))
            assert policy.create(dns)["dns"].cpus == "0-1"
        else:
            policy.create(container("b", 7000))
            with pytest.raises(NoPlace, match="2 CPUs requested, but only 0 available"):
                policy.create(dns)


def test_preserved_containers_are_not_pinned() -> None:
    rule = {"matchExpressions": [{"key": "name", "operator": "Equals", "values": ["kept"]}]}
    policy = balloons(preserve=rule)
    assert policy.create(container("kept", 1000)) == {}
    assert policy.create(container("too", 1000, **{"cpu.preserve": "true"})) == {}
    assert policy.resize("kept", Requests(500, 500)) == {}


def test_a_resize_allocates_memory_again_with_the_new_limit() -> None:
    for choices in (Choices.DEFAULT, Choices.REFERENCE):
        policy = balloons(
            {"name": "big", "namespaces": ["default"]}, topology=with_memory("hbm", 1, True), choices=choices
        )
        policy.create(container("a", 500, 20 * GIB, memory_type="hbm"))
        assert policy.zones.zones.get("a") is None
        policy.resize("a", Requests(500, 500, GIB >> 2, GIB >> 2))
        policy.create(container("b", 1000))
        assert masks.text(policy.zones.zones["a"]) == "4"


def test_balloons_follow_resizes() -> None:
    """`balloons_follow_resizes`: nri-plugins keeps the balloon's size and sends old shares again."""
    for choices in MODES:
        policy = balloons({"name": "web", "namespaces": ["*"], "maxCPUs": 4}, choices=choices)
        policy.create(container("a", 1000))
        pins = policy.resize("a", Requests(3000, 3000))
        if choices is Choices.DEFAULT:
            assert sizes(policy)["web[0]"] == 3
            assert pins["a"].shares == 3072
            assert policy.resize("a", Requests(3000, 3000)) == pins
            with pytest.raises(NoPlace):
                policy.resize("a", Requests(9000, 9000))
            assert sizes(policy)["web[0]"] == 3
            policy.create(container("b", 1000, pod="b"))
            policy.resize("b", Requests(2000, 2000))
            assert sizes(policy) == {"reserved[0]": 1, "default[0]": 0, "web[0]": 3, "web[1]": 2}
        else:
            assert pins == {}
            assert policy.resize("a", Requests(3000, 3000))["a"].shares == 1024


def test_dropped_requests_count() -> None:
    """`dropped_requests_count`: for nri-plugins a removed request is not a change."""
    for choices in MODES:
        policy = balloons({"name": "web", "namespaces": ["*"]}, choices=choices)
        policy.create(container("a", 2000, GIB, "Burstable"))
        policy.resize("a", Requests(2500, 0, GIB, GIB))
        pins = policy.resize("a", Requests(0, 0, GIB, GIB))["a"]
        assert pins.shares == (None if choices is Choices.DEFAULT else 2048)
        assert sizes(policy)["web[0]"] == (1 if choices is Choices.DEFAULT else 2)


def test_memory_follows_cpus() -> None:
    """`memory_follows_cpus`: memory of containers leaves the nodes whose CPUs the balloon returned."""
    for choices in MODES:
        policy = balloons({"name": "web", "namespaces": ["*"]}, choices=choices)
        policy.create(container("a", 1000, GIB >> 2))
        policy.create(container("b", 6000, pod="b"))
        policy.release("b")
        last = policy.resize("a", Requests(1000, 1000, GIB >> 2, GIB >> 2))["a"]
        (web,) = (balloon for balloon in policy.balloons if balloon.type.name == "web")
        followed = masks.text(policy.machine.nodes_of(web.cpus)) == last.mems
        assert followed is (choices is Choices.DEFAULT)


@pytest.mark.parametrize(("choices", "idle"), [(Choices.DEFAULT, "1-7"), (Choices.REFERENCE, "1-15")])
def test_packages_have_their_own_cpus(choices: Choices, idle: str) -> None:
    """`packages_have_their_own_cpus`: without NUMA, nri-plugins shares idle CPUs across all packages."""
    close = {"name": "near", "shareIdleCPUsInSame": "package", "minCPUs": 1, "minBalloons": 1}
    policy = balloons(close, topology=numa_off(), choices=choices, reservedResources={"cpu": "cpuset:0"})
    one = next(balloon for balloon in policy.balloons if balloon.type.name == "near")
    assert masks.text((one.cpus | one.idle) & ~policy.types.reserved) == idle


def test_freed_cpus_are_shared() -> None:
    """`freed_cpus_are_shared`: the minimum CPUs of a removed balloon become idle."""
    for choices in MODES:
        policy = balloons({"name": "idle", "shareIdleCPUsInSame": "system", "minBalloons": 1, "minCPUs": 1},
                          {"name": "other", "minCPUs": 2}, choices=choices)  # fmt: skip
        before = policy.create(container("a", 100, **{"balloon.balloons": "idle"}))["a"].cpus
        policy.create(container("b", 100, **{"balloon.balloons": "other"}))
        after = policy.release("b").get("a", Pins()).cpus
        assert (after == before) is (choices is Choices.DEFAULT)


@pytest.mark.parametrize(("choices", "mems"), [(Choices.DEFAULT, "1"), (Choices.REFERENCE, "0-1")])
def test_memory_nodes_have_memory(choices: Choices, mems: str) -> None:
    """`memory_nodes_have_memory`: nri-plugins pins to nodes without memory, which the kernel refuses."""
    topology = guest(1, 2, 2, 2)
    empty = replace(topology, nodes=topology.nodes | {0: replace(topology.nodes[0], memory_bytes=0)})
    policy = balloons({"name": "own", "namespaces": ["*"]}, topology=empty, choices=choices)
    assert policy.create(container("a", 1000, GIB))["a"].mems == mems


def test_preserved_memory_stays() -> None:
    """`preserved_memory_stays`: nri-plugins widens memory of preserved containers."""
    for choices in MODES:
        policy = balloons(choices=choices)
        placed = container("kept", 1000, 3 * GIB, **{"memory.preserve": "true"})
        placed.mems = "0"
        assert policy.create(placed)["kept"].mems == (None if choices is Choices.DEFAULT else "0-3")
        assert policy.zones.zones["kept"] == 0b1111


def test_a_refused_request_leaves_no_state() -> None:
    policy = balloons({"name": "big", "namespaces": ["*"], "minCPUs": 8, "maxCPUs": 8, "preferNewBalloons": True})
    free = policy.free
    with pytest.raises(NoPlace):
        policy.create(container("a", 9000))
    assert (policy.free, policy.containers, sizes(policy)) == (free, {}, {"reserved[0]": 1, "default[0]": 0})


def test_balloons_keep_their_limit() -> None:
    """`balloons_keep_their_limit`: in the original 9 CPUs are asked of a balloon that has 8 and can have no more.

    There it is so also for one that is empty.
    """
    for choices, empty in product(MODES, (0, 1)):
        policy = balloons({"name": "big", "minCPUs": 8, "maxCPUs": 8, "minBalloons": empty}, choices=choices)
        nine = container("a", 9000, **{"balloon.balloons": "big"})
        if choices is Choices.DEFAULT:
            with pytest.raises(NoPlace, match="9000m CPU requested from balloons big"):
                policy.create(nine)
        else:
            assert masks.parse(policy.create(nine)["a"].cpus or "").bit_count() == 8


def test_a_container_gets_missing_memory_when_its_balloon_changes() -> None:
    policy = balloons()
    total = policy.zones.capacity(policy.zones.all)
    policy.create(container("first", memory_limit=total, namespace="kube-system"))
    policy.create(container("short", memory_limit=total))
    assert "short" not in policy.zones.zones
    policy.release("first")
    with pytest.raises(NoPlace):
        policy.create(container("refused", 10**6))
    assert masks.text(policy.zones.all) == policy.create(container("other"))["short"].mems


def test_hidden_threads_and_devices() -> None:
    policy = balloons(
        {"name": "near", "preferCloseToDevices": ["/sys/devices/system/node/node2"], "hideHyperthreads": True,
         "preferIsolCpus": True, "preferCoreType": "performance"},
        topology=guest(),
    )  # fmt: skip
    pins = policy.create(container("a", 2000, **{"balloon.balloons": "near"}))
    assert pins["a"].cpus == "10"
    assert policy.create(container("b", 1000, hide_hyperthreads="no"))["b"].cpus is not None


# -- what is kept over a restart ---------------------------------------------------------------------------------------

BOTH = {"name": "both", "components": [{"balloonType": "left"}, {"balloonType": "right"}]}
PARTS = ({"name": "left"}, {"name": "right"})


def restarted(policy: Balloons, state: PlacementState | None = None, **options: Any) -> Balloons:
    """A policy that takes up what another one gave, perhaps with other options."""
    state = state or policy.saved()
    containers = {name: replace(container) for name, container in policy.containers.items()}
    options = {**vars(policy.options), **options}
    return Balloons(policy.machine, Options(**options), state=state, containers=containers)


def test_a_composite_is_restored_with_its_components() -> None:
    policy = balloons(BOTH, *PARTS)
    policy.create(container("c", 4000, **{"balloon.balloons": "both"}))
    restored = restarted(policy)
    assert restored.saved() == policy.saved()
    assert [part.type.name for part in restored.balloons[-1].parts()] == ["both", "left", "right"]


def test_a_restored_balloon_without_containers_returns_its_cpus() -> None:
    policy = balloons()
    policy.create(container("c", 3000))
    before = policy.saved()
    policy.release("c")
    assert restarted(policy, before).saved() == policy.saved()


def test_composites_keep_their_least() -> None:
    """`composites_keep_their_least`: in nri-plugins `minCPUs` counts only until a container leaves."""
    for choices in MODES:
        policy = balloons({**BOTH, "minCPUs": 4, "minBalloons": 1}, *PARTS, choices=choices)
        least = 4 if choices is Choices.DEFAULT else 0
        (both,) = [balloon for balloon in policy.balloons if balloon.type.name == "both"]
        for name in ("a", "b"):
            policy.create(container(name, 1000, **{"balloon.balloons": "both"}))
        assert both.cpus.bit_count() == 4
        if choices is Choices.DEFAULT:
            assert restarted(policy).saved() == policy.saved(), "after a restart"
        policy.release("a")
        assert both.cpus.bit_count() == max(least, 2)
        policy.release("b")
        assert both.cpus.bit_count() == least


def test_a_composite_below_its_minimum_ends_with_its_last_container() -> None:
    policy = balloons(BOTH, *PARTS, {"name": "rest"}, topology=guest(1, 1, 4, 2))
    policy.create(container("c", 2000, **{"balloon.balloons": "both"}))
    policy.create(container("rest", 1000 * policy.free.bit_count(), **{"balloon.balloons": "rest"}))
    types = [
        replace(balloon, minCPUs=6) if balloon.name == "both" else balloon for balloon in policy.options.balloonTypes
    ]
    restored = restarted(policy, balloonTypes=types)
    assert list(restored.containers) == ["c", "rest"] and not restored.free
    restored.release("c")
    assert "both[0]" not in {balloon.name for balloon in restored.balloons}
    assert restored.free.bit_count() == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts[1:],  # not as many as it is said to have
        lambda parts: [*parts, parts[-1]],  # more
        lambda parts: [replace(parts[0], type="gone"), *parts[1:]],
        lambda parts: [replace(parts[0], components=0), *parts[1:]],
        lambda parts: [parts[0], parts[1], replace(parts[2], cpus=parts[1].cpus)],  # one CPU twice
        lambda parts: [parts[0], parts[1], replace(parts[2], cpus="4000")],
    ],
)
def test_a_balloon_that_no_longer_fits_is_not_restored(
    change: Callable[[list[PartState]], list[PartState]],
) -> None:
    policy = balloons(BOTH, *PARTS)
    policy.create(container("c", 4000, **{"balloon.balloons": "both"}))
    state = policy.saved()
    name, last = list(state.balloons.items())[-1]
    restored = restarted(
        policy, replace(state, balloons=state.balloons | {name: replace(last, parts=change(last.parts))})
    )
    assert restored.containers == {}
    assert restored.free == policy.free | policy.balloons[-1].cpus


def test_containers_stay_in_a_balloon_that_the_new_options_allow() -> None:
    policy = balloons({"name": "web", "namespaces": ["web"], "maxCPUs": 6})
    for name, cpu_m in (("a", 2000), ("b", 3000), ("c", 1000)):
        policy.create(container(name, cpu_m, namespace="web"))
    policy.create(container("d", 1000))
    elsewhere = restarted(policy, balloonTypes=[BalloonType("web", namespaces=["other"], maxCPUs=6)])
    assert list(elsewhere.containers) == ["d"]
    assert [str(balloon) for balloon in elsewhere.balloons] == ["reserved[0]", "default[0]"]
    larger = restarted(policy, balloonTypes=[BalloonType("web", namespaces=["web"], minCPUs=8)])
    assert "a" not in larger.containers
    unknown = balloons({"name": "web", "namespaces": ["web"]})
    unknown.create(container("a", 1000, **{"balloon.balloons": "web"}))
    assert restarted(unknown, balloonTypes=[]).containers == {}


def test_a_restored_balloon_keeps_the_containers_that_fit() -> None:
    policy = balloons({"name": "web", "namespaces": ["web"], "maxCPUs": 6})
    for name, cpu_m in (("a", 2000), ("b", 3000)):
        policy.create(container(name, cpu_m, namespace="web"))
    policy.containers["b"].requests = Requests(9000)
    assert list(restarted(policy).containers) == ["a"]


def test_the_limits_of_balloons_apply_to_restored_balloons() -> None:
    policy = balloons({"name": "web", "namespaces": ["web"], "preferNewBalloons": True})
    for name in "abc":
        policy.create(container(name, 1000, namespace="web"))
    one = restarted(policy, balloonTypes=[BalloonType("web", namespaces=["web"], maxBalloons=1)])
    assert list(one.containers) == ["a"]
    four = restarted(policy, balloonTypes=[BalloonType("web", namespaces=["web"], minBalloons=4, minCPUs=1)])
    assert {str(balloon) for balloon in four.balloons} == {
        "reserved[0]",
        "default[0]",
        *(f"web[{n}]" for n in range(4)),
    }


def test_of_containers_that_wait_for_the_same_memory_only_the_first_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, tried = balloons(), list[str]()
    allocate, total = policy.zones.allocate, policy.zones.free(policy.zones.all)
    monkeypatch.setattr(policy.zones, "allocate", lambda located: (tried.append(located.user), allocate(located))[1])
    policy.create(container("first", memory_limit=total, namespace="kube-system"))
    for n in range(20):
        policy.create(container(f"w{n}", memory_limit=total, pod=f"pod-{n % 2}"))
    assert tried == ["first", "w0"]
    policy.release("w0")  # then the last one of its pod has its turn
    policy.release("first")
    assert policy.create(container("new", memory_limit=total)).keys() == {"w18", "new"}
    assert tried[2:] == ["w18", "w2"]


def test_missing_memory_nodes_are_replaced() -> None:
    policy = balloons()
    policy.create(container("a", 1000, GIB))
    state = policy.saved()
    state.zones["a"] = "17"
    restored = restarted(policy, state)
    assert restored.pins == policy.pins


def test_containers_of_a_balloon_get_only_their_own_changes() -> None:
    policy = balloons({"name": "web", "namespaces": ["web"], "maxCPUs": 6})
    policy.create(container("a", 1500, namespace="web"))
    assert list(policy.create(container("b", 500, namespace="web"))) == ["b"]
    assert sorted(policy.create(container("c", 500, namespace="web"))) == ["a", "b", "c"]
    assert policy.resize("b", Requests(400))["b"] == policy.pins["b"]


UNEVEN = (
    {"name": "a", "minCPUs": 1},
    {"name": "b"},
    {"name": "both", "components": [{"balloonType": "a"}, {"balloonType": "b"}]},
)


@pytest.mark.parametrize("cpu_m", [0, 1, 500, 2001])
def test_each_component_of_a_composite_gets_the_request(cpu_m: int) -> None:
    policy = balloons(*PARTS, BOTH)
    qos = "Burstable" if cpu_m else "BestEffort"
    pins = policy.create(container("c", cpu_m, qos=qos, **{"balloon.balloons": "both"}))["c"]
    assert masks.parse(pins.cpus or "").bit_count() == (2 if cpu_m < 2001 else 4)


def test_each_component_of_a_composite_has_a_cpu_also_after_a_restart() -> None:
    for choices in MODES:
        policy = balloons(*UNEVEN, choices=choices)
        policy.create(container("c", **{"balloon.balloons": "both"}))
        assert [part.cpus.bit_count() for part in policy.balloons[-1].components] == [1, choices is Choices.DEFAULT]
        assert choices is Choices.REFERENCE or restarted(policy).pins == policy.pins


def test_a_composite_whose_components_cannot_grow_equally_is_skipped() -> None:
    """nri-plugins refuses the third container, because one free CPU is not enough for each component."""
    for choices in MODES:
        policy = balloons({**BOTH, "preferNewBalloons": True}, *PARTS, topology=guest(1, 1, 4, 2), choices=choices)
        first = policy.create(container("first", 2000, pod="one", **{"balloon.balloons": "both"}))["first"]
        second = policy.create(container("second", 500, pod="two", **{"balloon.balloons": "both"}))["second"]
        policy.create(container("rest", 2000))
        third = container("third", 1000, pod="one", **{"balloon.balloons": "both"})
        assert [masks.parse(row.cpus or "").bit_count() for row in (first, second)] == [2, 2]
        assert policy.free.bit_count() == 1
        if choices is Choices.DEFAULT:
            assert policy.create(third)["third"].cpus == second.cpus
        else:
            with pytest.raises(NoPlace, match=r"both\[0\] cannot grow to 3000m"):
                policy.create(third)


def test_a_refused_resize_in_a_composite_keeps_the_shares() -> None:
    policy = balloons(BOTH, *PARTS, {"name": "rest"}, topology=guest(1, 1, 2, 2))
    before = policy.create(container("c", 2000, **{"balloon.balloons": "both"}))
    with pytest.raises(NoPlace):
        policy.resize("c", Requests(3000))
    assert policy.pins == before


def test_a_composite_shares_idle_cpus_from_its_creation() -> None:
    for choices, cpus in zip(MODES, ("1-3", "1-2"), strict=True):
        policy = balloons({**BOTH, "shareIdleCPUsInSame": "numa"}, *PARTS, choices=choices)
        pins = policy.create(container("c", 2000, **{"balloon.balloons": "both"}))
        assert pins["c"].cpus == cpus
        assert choices is Choices.REFERENCE or restarted(policy).pins == pins


def test_a_composite_that_cannot_change_keeps_its_cpus() -> None:
    policy = balloons(*UNEVEN, {"name": "rest"}, topology=guest(1, 1, 2, 2))
    for name, cpu_m in (("one", 0), ("two", 500)):
        qos = "Burstable" if cpu_m else "BestEffort"
        policy.create(container(name, cpu_m, qos=qos, **{"balloon.balloons": "both"}))
    policy.create(container("rest", 1000, **{"balloon.balloons": "rest"}))
    with pytest.raises(NoPlace, match="both"):
        policy.resize("one", Requests(4000))
    policy.release("one")
    assert list(policy.containers) == ["two", "rest"] and policy.pins["two"].cpus
