"""Resources: merging, CRI form and application on a dry engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation import OrderedUpdates
from nri.engine.lifecycle.inventory import read_spec
from nri.engine.lifecycle.resources import Resources, in_force, merged


def test_resources_are_merged_key_by_key() -> None:
    old = {"cpu": {"shares": 2, "cpus": "0"}, "hugepageLimits": [{"pageSize": "2MB", "limit": 1}], "devices": [1]}
    new = {"cpu": {"shares": 9}, "pids": {"limit": 5}, "hugepageLimits": [{"pageSize": "1GB", "limit": 3}]}
    assert merged(old, new) == {
        "cpu": {"shares": 9, "cpus": "0"},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 3}],
        "devices": [1],
        "pids": {"limit": 5},
    }
    assert old["cpu"] == {"shares": 2, "cpus": "0"}


def test_the_spec_counts_and_values_that_only_the_request_has_are_kept() -> None:
    spec = {"linux": {"resources": {"cpu": {"shares": 300}, "memory": {"limit": 1 << 20}}}}
    requested = {"cpu_shares": "100", "oom_score_adj": "5"}
    assert in_force(spec, requested) == {
        "cpu_shares": "300",
        "memory_limit_in_bytes": str(1 << 20),
        "oom_score_adj": "5",
    }
    assert in_force({}, requested) == requested
    assert in_force({"process": {"oomScoreAdj": 900}}, requested)["oom_score_adj"] == "900"


@pytest.mark.parametrize(("limited", "after"), [(True, {"limit": 4096, "swap": 4096}), (False, {"limit": 4096})])
def test_a_memory_limit_also_limits_swap_if_the_machine_can(
    dry: Any, monkeypatch: pytest.MonkeyPatch, limited: bool, after: dict[str, int]
) -> None:
    container_id, machinery = dry.run(dry.pod()), dry.engine.machinery
    machine = replace(machinery.machine, swap_limit=limited)
    monkeypatch.setattr(machinery, "machine", machine)
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(machinery.runtime("runc"), "update", lambda _, resources: messages.append(resources))
    resources = Resources(dry.engine.inventory, machine, machinery.runtime, machinery.generator)
    (result,) = resources.apply(OrderedUpdates([nri.Update(container_id).set_memory_limit(4096).message]))
    assert not result.failed
    assert [entry["memory"] for entry in messages] == [after]


@pytest.mark.parametrize("before", [None, {"closID": "gold"}])
def test_an_update_does_not_write_classes_that_no_runtime_applies(dry: Any, before: dict[str, Any] | None) -> None:
    container = dry.engine.inventory.container(dry.run(dry.pod()))
    if before:
        container.spec["linux"]["intelRdt"] = before
    resources = Resources(
        dry.engine.inventory, dry.engine.machinery.machine, dry.engine.machinery.runtime, dry.engine.machinery.generator
    )
    update = nri.Update(container.id).set_memory_limit(4096).set_rdt_class("silver").message
    (result,) = resources.apply(OrderedUpdates([update]))
    spec = read_spec(Path(container.record.bundle))
    assert spec["linux"].get("intelRdt") == container.spec["linux"].get("intelRdt") == before
    assert spec["linux"]["resources"]["memory"]["limit"] == 4096
    assert {row.field: bool(row.reason) for row in result.fields} == {"memory.limit": False, "rdt_class": True}
