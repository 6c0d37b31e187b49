"""UpdateContainerResources on a dry engine: with NRI, without it, refused, changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import nri
from nri.adaptation import OrderedUpdates, SequenceNumbers
from nri.cri.pb import api_pb2 as pb
from nri.engine.support.errors import CommandFailed
from nri.errors import NriError, RequestError
from nri.ttrpc.waiters import ARRIVALS


def in_force(dry: Any, container_id: str) -> dict[str, Any]:
    spec = json.loads((dry.config.state / "bundles" / container_id / "config.json").read_text())
    assert spec["linux"]["resources"] == dry.engine.inventory.container(container_id).spec["linux"]["resources"]
    return {key: value for key, value in spec["linux"]["resources"].items() if key in ("cpu", "memory")}


def test_a_request_that_no_plugin_changes_is_applied(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    dry.engine.resource_updates.update_container(
        container_id, pb.LinuxContainerResources(cpu_shares=300, cpuset_cpus="0")
    )
    assert in_force(dry, container_id)["cpu"] == {"shares": 300, "cpus": "0"}
    assert dry.engine.inventory.container(container_id).record.resources == {"cpu_shares": "300", "cpuset_cpus": "0"}
    assert dry.told.of("c")[-2:] == ["update_container", "post_update_container"]


def test_without_nri_a_request_is_applied(dry: Any) -> None:
    dry.engine.stop()
    dry.config = replace(dry.config, nri=replace(dry.config.nri, disable=True))
    from nri.engine.engine import Engine

    dry.engine = Engine(dry.config)
    dry.engine.start()
    container_id = dry.run(dry.pod())
    dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    assert in_force(dry, container_id)["cpu"]["shares"] == 300 and dry.told.events == []


def test_changes_of_plugins_replace_the_request_and_update_other_containers(dry: Any) -> None:
    pod = dry.pod()
    container_id, other = dry.run(pod), dry.run(pod, "other")
    dry.told.on["update_container"] = lambda *_: [
        nri.Update(container_id).set_cpu_shares(700).message, nri.Update(other).set_cpu_shares(800).message
    ]  # fmt: skip
    dry.engine.resource_updates.update_container(
        container_id, pb.LinuxContainerResources(cpu_shares=300, cpu_period=1000)
    )
    assert in_force(dry, container_id)["cpu"] == {"shares": 700, "period": 1000}
    assert in_force(dry, other)["cpu"]["shares"] == 800
    assert "update_container" not in dry.told.of("other")


def test_unsupported_changes_of_plugins_are_reported(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    dry.told.on["update_container"] = lambda *_: [
        nri.Update(container_id).set_cpu_shares(700).set_memory_swappiness(5).message
    ]  # fmt: skip
    dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    notes = [text for _, text in dry.engine.nri.adaptation.provenance.explain(container_id).notes]
    assert [text for text in notes if "memory.swappiness unsupported: runc does not change it" in text], notes
    assert not [text for text in notes if "cpu.shares" in text]


def test_refused_and_failed_updates_change_no_value(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    before = in_force(dry, container_id)

    def refuse(*_: Any) -> None:
        raise nri.Reject("keep it")

    dry.told.on["update_container"] = refuse
    with pytest.raises(NriError, match="keep it"):
        dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    del dry.told.on["update_container"]
    runtime = dry.engine.machinery.runtime("runc")
    runtime.update = lambda *_: (_ for _ in ()).throw(CommandFailed("runc update", 1, "busy"))
    with pytest.raises(CommandFailed, match="busy"):
        dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    assert in_force(dry, container_id) == before and "post_update_container" not in dry.told.of("c")


@pytest.mark.parametrize("is_reported", [False, True], ids=["not reported", "reported"])
def test_after_a_refusal_plugins_can_receive_the_current_values(dry: Any, is_reported: bool) -> None:
    dry.restart(nri=replace(dry.config.nri, tell_refused=is_reported))
    container_id = dry.run(dry.pod())

    def refuse(*_: Any) -> None:
        raise nri.Reject("keep it")

    dry.told.on["update_container"] = refuse
    with pytest.raises(NriError, match="keep it"):
        dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    assert dry.told.of("c")[-1] == ("post_update_container" if is_reported else "update_container")


def test_impossible_values_are_refused_before_plugins_are_called(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    with pytest.raises(RequestError, match=r"linux\.cpuset_cpus"):
        dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpuset_cpus="x"))
    assert "update_container" not in dry.told.of("c")


def test_an_update_of_an_ended_container_changes_only_its_record(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    dry.engine.container_removal.stop(container_id)
    dry.engine.machinery.runtime("runc").update = lambda *_: pytest.fail("the OCI runtime does not know the container")
    dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    assert in_force(dry, container_id)["cpu"]["shares"] == 300
    assert "update_container" not in dry.told.of("c") and "post_update_container" not in dry.told.of("c")


def test_an_update_of_an_ended_container_by_a_plugin_is_stale(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    dry.engine.container_removal.stop(container_id)
    update = nri.Update(container_id).set_cpu_shares(700).message
    (result,) = dry.engine.nri.update(OrderedUpdates([update], SequenceNumbers(1)))
    assert result.failed and "exited: update is not possible" in str(result)


def test_annotations_of_the_request_are_added(dry: Any) -> None:
    container_id = dry.run(dry.pod(), annotations={"a": "1"})
    dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=3), {"b": "2"})
    assert dry.engine.inventory.container(container_id).record.annotations == {"a": "1", "b": "2"}


def test_an_earlier_answer_applied_late_keeps_later_values(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    requested = nri.Update(container_id).set_cpu_shares(700).set_cpu_quota(5000).add_unified("cpu.idle", "1").message
    later = nri.Update(container_id).set_cpu_shares(800).add_unified("cpu.idle", "0").message
    (second,) = dry.engine.nri.update(OrderedUpdates([later], SequenceNumbers(8)))
    (first,) = dry.engine.nri.update(OrderedUpdates([requested], SequenceNumbers(7)))
    assert not second.failed
    assert {row.field: row.outcome for row in first.fields} == {
        "cpu.shares": "stale", "cpu.quota": "applied", "unified[cpu.idle]": "stale"
    }  # fmt: skip
    assert in_force(dry, container_id)["cpu"] == {"shares": 800, "quota": 5000}
    assert dry.engine.inventory.container(container_id).spec["linux"]["resources"]["unified"] == {"cpu.idle": "0"}


def test_later_values_of_clients_and_plugins_survive_an_earlier_answer(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    before = next(ARRIVALS)
    dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_quota=6000))
    by_itself = nri.Update(container_id).set_memory_limit(64 << 20).message
    dry.engine.nri.update(OrderedUpdates([by_itself], SequenceNumbers(next(ARRIVALS))))
    requested = nri.Update(container_id).set_cpu_shares(700).set_cpu_quota(5000).set_memory_limit(32 << 20).message
    (late,) = dry.engine.nri.update(OrderedUpdates([requested], SequenceNumbers(before)))
    assert {row.field: row.outcome for row in late.fields} == {
        "cpu.shares": "applied", "cpu.quota": "stale", "memory.limit": "stale"
    }  # fmt: skip
    assert in_force(dry, container_id)["cpu"] == {"shares": 700, "quota": 6000}
    assert in_force(dry, container_id)["memory"]["limit"] == 64 << 20


def test_values_of_the_creation_survive_an_earlier_answer(dry: Any) -> None:
    before = next(ARRIVALS)
    dry.told.on["create_container"] = lambda *_: nri.Adjustment().set_cpu_shares(800)
    container_id = dry.run(dry.pod())
    requested = nri.Update(container_id).set_cpu_shares(700).set_cpu_quota(5000).message
    (late,) = dry.engine.nri.update(OrderedUpdates([requested], SequenceNumbers(before)))
    assert {row.field: row.outcome for row in late.fields} == {"cpu.shares": "stale", "cpu.quota": "applied"}
    assert in_force(dry, container_id)["cpu"] == {"shares": 800, "quota": 5000}


def test_a_device_rule_in_an_update_is_omitted_and_reported(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    before = dry.engine.inventory.container(container_id).spec["linux"]["resources"]["devices"]
    dry.told.on["update_container"] = lambda *_: [
        nri.Update(container_id).set_cpu_shares(700).add_device_rule(False, "c", major=1, minor=5).message
    ]  # fmt: skip
    dry.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpu_shares=300))
    assert in_force(dry, container_id)["cpu"]["shares"] == 700
    assert dry.engine.inventory.container(container_id).spec["linux"]["resources"]["devices"] == before
    notes = [text for _, text in dry.engine.nri.adaptation.provenance.explain(container_id).notes]
    assert [text for text in notes if "linux.resources.devices" in text and "unsupported in an update" in text], notes
