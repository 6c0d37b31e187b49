"""Levels of offline pods: without a process, of containers that come later, and of pods that are online."""

from __future__ import annotations

from nri.policies.rubik import preemption
from nri.policies.rubik.pods import PREEMPTIBLE, Container, Pod
from nri.policies.rubik.settings import Net

ON = Pod("u", folder="p", containers=(Container("1", folder="p/1"),))
OFF = Pod("u", folder="p", annotations={PREEMPTIBLE: "true"}, containers=ON.containers)
ALL = ("cpu", "memory", "net")


def test_an_offline_pod_without_a_process_gets_all_but_the_network() -> None:
    found = preemption.decide(OFF, ALL, 0, lambda folder, knob: "0")
    assert {(each.folder, each.knob, each.value) for each in found.writes} == {
        (folder, knob, "-1") for folder in ("p", "p/1") for knob in ("cpu.qos_level", "memory.qos_level")
    }
    assert found.enable == 0
    assert len(found.problems) == 1


def test_an_online_pod_is_not_written_and_one_found_below_is_told() -> None:
    assert preemption.decide(ON, ALL, 7, lambda folder, knob: "0\n") == ([], 7, [])
    assert len(preemption.decide(ON, ["cpu"], 7, lambda folder, knob: "-1\n").problems) == 2
    assert len(preemption.decide(ON, ["cpu"], 7, lambda folder, knob: None).problems) == 2


def test_a_container_that_comes_later_gets_the_level_of_its_pod() -> None:
    later = Pod(
        "u", folder="p", annotations=OFF.annotations, containers=(*OFF.containers, Container("2", folder="p/2"))
    )
    found = preemption.update(OFF, later, ["cpu"], 7, lambda folder, knob: "0")
    assert [each.folder for each in found.writes] == ["p/2"]
    assert preemption.update(OFF, ON, ["cpu"], 7, lambda folder, knob: "-1").problems
    assert len(preemption.update(ON, OFF, ["cpu"], 7, lambda folder, knob: "0").writes) == 2


def test_the_host_network_is_not_controlled_for_one_pod() -> None:
    pod = Pod("u", folder="p", annotations=OFF.annotations, host_network=True)
    assert preemption.decide(pod, ["net"], 7, lambda folder, knob: "0").enable == 0


def test_the_networks_texts() -> None:
    assert preemption.bandwidth(Net(100, 5, 10)) == {"net_qos_waterline": "100mb", "net_qos_bandwidth": "5mb,10mb"}
