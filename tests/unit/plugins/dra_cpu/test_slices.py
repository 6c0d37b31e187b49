"""ResourceSlices of dra-cpu: devices, their attributes, and what counts as published."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nri.plugins.dra_cpu.slices import are_published, cpu_of, devices, slices
from tests.support.placement import guest

DRIVER, NODE = "dra-cpu.nri.io", "node-1"


def test_a_device_has_the_place_of_its_cpu_in_the_machine() -> None:
    topology = guest()
    (device,) = devices(topology, [5])
    cpu = topology.cpus[5]
    numbers = {name: value["int"] for name, value in device["attributes"].items() if "int" in value}
    assert device["name"] == "cpu-5"
    assert numbers.items() >= {
        ("numaNode", cpu.node), ("package", cpu.package), ("die", cpu.die), ("core", min(cpu.threads))
    }  # fmt: skip
    assert device["attributes"]["isolated"] == {"bool": False}
    assert device["attributes"]["coreType"] == {"string": "uniform"}


def test_a_cpu_without_a_shared_cache_has_no_attribute_for_it() -> None:
    topology = guest()
    cpu = replace(topology.cpus[5], caches=())
    (device,) = devices(replace(topology, cpus={**topology.cpus, 5: cpu}), [5])
    assert "l3Cache" not in device["attributes"]


def test_the_cpus_of_a_large_machine_are_in_slices_of_at_most_128_devices() -> None:
    topology = guest(packages=2, nodes=4, cores=16, threads=2)
    parts = slices(DRIVER, NODE, devices(topology, topology.online), 3)
    assert [len(part["spec"]["devices"]) for part in parts] == [128, 128]
    assert [part["metadata"]["name"] for part in parts] == [f"{NODE}-{DRIVER}-0", f"{NODE}-{DRIVER}-1"]
    assert {str(part["spec"]["pool"]) for part in parts} == {
        str({"name": NODE, "generation": 3, "resourceSliceCount": 2})
    }


def test_a_long_node_name_is_shortened_in_the_name_of_a_slice() -> None:
    (part,) = slices(DRIVER, ".".join(["n" * 62] * 4), devices(guest(), [1]), 1)
    assert len(part["metadata"]["name"]) < 253
    assert part["spec"]["nodeName"] == ".".join(["n" * 62] * 4)


@pytest.mark.parametrize("name", ["cpu-", "cpu-01", "cpu-x", "gpu-1", "cpu-1234567", "cpu-\u0661", ""])
def test_other_names_of_devices_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a device of this driver, such as cpu-3"):
        cpu_of(name)


def test_slices_are_published_only_if_all_exist_with_the_newest_generation() -> None:
    topology = guest(packages=2, nodes=4, cores=16, threads=2)
    parts = slices(DRIVER, NODE, devices(topology, topology.online), 2)
    existing = {part["metadata"]["name"]: part for part in parts}
    assert are_published(parts, existing)
    assert not are_published(parts, {})
    assert not are_published(parts, dict(list(existing.items())[:1]))
    changed = json.loads(json.dumps(existing))
    changed[f"{NODE}-{DRIVER}-0"]["spec"]["devices"][0]["attributes"]["numaNode"] = {"int": 9}
    assert not are_published(parts, changed)
    older = json.loads(json.dumps(existing))
    older[f"{NODE}-{DRIVER}-0"]["spec"]["pool"]["generation"] = 1
    assert not are_published(parts, older)
    assert not are_published(parts, existing | {"foreign": {"spec": {"pool": {"generation": 7}}}})
    assert not are_published(parts, {name: {"spec": "damaged"} for name in existing})
