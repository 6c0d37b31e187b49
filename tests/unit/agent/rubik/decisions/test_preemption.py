"""Levels of offline pods: without a process, of containers that come later, and of pods that are online."""

from __future__ import annotations

from nri.agent.rubik.blocks import Net
from nri.agent.rubik.decisions import preemption
from nri.agent.rubik.pods import PREEMPTIBLE, Container, Pod

ON = Pod("u", folder="p", containers=(Container("1", folder="p/1"),))
OFF = Pod("u", folder="p", annotations={PREEMPTIBLE: "true"}, containers=ON.containers)
ALL = ("cpu", "memory", "net")


def test_the_network_of_a_pod_without_a_process_cannot_be_controlled() -> None:
    found = preemption.decide(None, OFF, ALL, 0, lambda folder, knob: "0")
    assert (found.enable, len(found.problems)) == (0, 1)


def test_an_online_pod_that_is_below_is_reported() -> None:
    assert preemption.decide(None, ON, ALL, 7, lambda folder, knob: "0\n") == (7, [])
    assert len(preemption.decide(None, ON, ["cpu"], 7, lambda folder, knob: "-1\n").problems) == 2
    assert len(preemption.decide(None, ON, ["cpu"], 7, lambda folder, knob: None).problems) == 2


def test_a_pod_that_becomes_online_is_reported_and_one_that_becomes_offline_is_as_a_new_one() -> None:
    assert preemption.decide(OFF, ON, ["cpu"], 7, lambda folder, knob: "-1").problems
    assert preemption.decide(ON, OFF, ALL, 7, lambda folder, knob: "0") == (7, [])
    assert preemption.decide(OFF, OFF, ALL, 7, lambda folder, knob: "0") == (0, [])


def test_the_host_network_is_not_controlled_for_one_pod() -> None:
    pod = Pod("u", folder="p", annotations=OFF.annotations, host_network=True)
    assert preemption.decide(None, pod, ["net"], 7, lambda folder, knob: "0").enable == 0


def test_the_networks_texts() -> None:
    assert preemption.bandwidth(Net(100, 5, 10)) == {"net_qos_waterline": "100mb", "net_qos_bandwidth": "5mb,10mb"}
