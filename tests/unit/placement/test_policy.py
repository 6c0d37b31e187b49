"""Policies as documents for tables, pictures and programs, and the lookup of containers."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from nri.kube.requests import Requests
from nri.placement.balloons.policy import Balloons
from nri.placement.policy import Gauge, document, explanation_document, exposition, find_container
from nri.placement.recorded.machines import Machines
from nri.placement.topology_aware.policy import TopologyAware
from tests.support.calls import calls
from tests.support.placement import DATA, GIB, balloons, container, guest, topology_aware, with_memory

POLICIES = pytest.mark.parametrize("make", [topology_aware, lambda: balloons({"name": "own", "maxCPUs": 4})])


@POLICIES
def test_a_document_is_json_with_every_container_in_its_pool(make) -> None:
    policy = make()
    for name, cpu_m in (("a", 2000), ("b", 700), ("c", 0)):
        policy.create(container(name, cpu_m))
    actual = json.loads(json.dumps(document(policy)))
    assert actual["policy"] == policy.name
    rows = {place["container"]: place for place in actual["containers"]}
    assert set(rows) == {"default/a/a", "default/b/b", "default/c/c"}
    for place in actual["places"]:
        for name in place["containers"]:
            assert rows.pop(name)["place"] == place["name"]
    assert rows == {}


def test_the_machine_has_each_cpu_once_in_its_core_cache_node_and_package() -> None:
    machine = document(topology_aware(guest()))["machine"]
    cpus = [
        (package["number"], node["number"], thread)
        for package in machine["packages"]
        for node in package["nodes"]
        for cores in node["caches"]
        for core in cores
        for thread in core
    ]
    assert cpus == [(cpu // 8, cpu // 4, cpu) for cpu in range(16)]


def test_nodes_without_cpus_are_listed_next_to_the_packages() -> None:
    nodes = [{"id": n, "type": kind, "mem_kib": 1 << 20} for n, kind in enumerate(["DRAM", "DRAM", "PMEM"])]
    shape = {"kind": "tree", "packages": 2, "cores_per_numa": 2, "nodes": nodes}
    shape["distances"] = [[10, 21, 17], [21, 10, 28], [17, 28, 10]]
    topology = Machines({"guest": shape}, DATA).get("guest")
    machine = document(topology_aware(topology))["machine"]
    assert [(row["number"], row["kind"]) for row in machine["memory_only"]] == [(2, "pmem")]


@POLICIES
def test_an_unknown_or_ambiguous_name_lists_the_containers(make) -> None:
    policy = make()
    for name in ("web-1", "web-2"):
        policy.create(container(name, 500, pod=f"pod-{name}"))
    for words in ("web-1", "default/pod-web-1/web-1", "pod-web-1/web-1", "pod-web-1", "default/pod-web-1"):
        assert find_container(policy.containers, words).id == "web-1", words
    with pytest.raises(
        LookupError, match=re.escape('"web" matches several containers: default/pod-web-1/web-1, default/pod-')
    ):
        find_container(policy.containers, "web")
    with pytest.raises(LookupError, match='container "db" not found; containers are default/pod-web-1/web-1, '):
        find_container(policy.containers, "db")
    with pytest.raises(LookupError, match="containers are none"):
        find_container(make().containers, "")


@POLICIES
def test_an_explanation_changes_no_state(make) -> None:
    policy = make()
    for name, cpu_m in (("a", 2000), ("b", 700), ("c", 0)):
        policy.create(container(name, cpu_m))
    before = policy.saved(), dict(policy.pins), document(policy)
    for name in ("a", "b", "c"):
        assert explanation_document(policy, name)["id"] == name
    assert (policy.saved(), dict(policy.pins), document(policy)) == before
    with pytest.raises(KeyError):
        explanation_document(policy, "none")


def test_metrics_are_prometheus_text_with_escaped_labels() -> None:
    gauges = [Gauge("a", "First.", {"of": 'x"\\\n'}, 0.7), Gauge("a", "First.", {"of": "y"}, 8589934592.0)]
    assert exposition(iter(gauges)).splitlines() == [
        "# HELP a First.",
        "# TYPE a gauge",
        r'a{of="x\"\\\n"} 0.7',
        'a{of="y"} 8589934592',
    ]


@pytest.mark.parametrize(
    "policy", [topology_aware(), balloons({"name": "rest", "namespaces": ["*"], "preferPerNamespaceBalloon": True})]
)
def test_the_cost_of_a_creation_does_not_depend_on_the_number_of_containers(
    policy: TopologyAware | Balloons, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for number in range(150):
        counts.append(calls(partial(policy.create, container(f"c{number}"))))
        if number == 20:
            monkeypatch.setattr(policy.zones, "saved", lambda: pytest.fail("all is noted, and nothing can be refused"))
    assert max(counts[100:]) <= max(counts[5:20])


BARE = {"pinCPU": False, "pinMemory": False}
ALONE = {"cpu.preserve": "true", "memory.preserve": "true"}


@pytest.mark.parametrize(
    ("policy", "turns"),
    [
        (balloons(**BARE), [[("create", container("a", 500))], [("resize", "a", Requests(1500))], [("release", "a")]]),
        (balloons(), [[("create", container("a", 500, **ALONE))], [("release", "a")]]),
        (
            topology_aware(**BARE),
            [[("create", container("a", 500, **ALONE)), ("create", container("b"))], [("release", "a")]],
        ),
        (
            topology_aware(guest(1, 2, 4, 2), **BARE),
            [[("create", container(f"c{number}", cpu_m, GIB * 5 // 4))] for number, cpu_m in enumerate((0, 0, 1000))],
        ),
        (
            topology_aware(with_memory("pmem", 1, True)),
            [
                [("create", container("a", 100, GIB * 3 // 4, qos="Burstable", cold_start="{duration: 60s}"))],
                [("create", container(f"b{number}", 100, GIB * 3 // 4, memory_type="pmem")) for number in range(2)],
                [("warm", "a")],
            ],
        ),
    ],
    ids=[
        "resized and not pinned",
        "left alone",
        "in their order",
        "moved and not pinned",
        "warm after it was moved to DRAM",
    ],
)
def test_the_changes_of_a_policy_are_complete(
    policy: TopologyAware | Balloons, turns: list[list[tuple[Any, ...]]]
) -> None:
    state = policy.saved()
    for events in turns:
        for what, *arguments in events:
            getattr(policy, what)(*arguments)
        assert state.take(policy.changed_entries()), "nothing has changed"
        assert state == policy.saved()
        assert [*state.containers] == [*policy.containers], "they changed places"
