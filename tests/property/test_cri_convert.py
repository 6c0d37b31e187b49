"""Between CRI and NRI nothing is lost silently: a field is in the result or in the list of dropped fields."""

from __future__ import annotations

import re

from google.protobuf.message import Message
from hypothesis import assume, given

from nri.api import messages as m
from nri.cri.convert import container, from_oci, pod_sandbox, to_cri, to_nri
from nri.cri.convert.dropped import left_over
from nri.cri.pb import api_pb2 as pb
from nri.oci import resources as oci_resources
from tests.property.cri_messages import messages


def paths(message: Message) -> set[str]:
    return {one.field for one in left_over(message, (), "")}


def valid(requests: pb.LinuxContainerResources) -> pb.LinuxContainerResources:
    assume(requests.cpu_shares >= 0 and requests.cpu_period >= 0)
    assume(len({limit.page_size for limit in requests.hugepage_limits}) == len(requests.hugepage_limits))
    return requests


@given(messages(pb.LinuxContainerResources))
def test_a_request_survives_the_conversion_to_nri_and_back(requests: pb.LinuxContainerResources) -> None:
    assert to_cri(to_nri(valid(requests)).value, base=requests).value == requests


@given(messages(pb.LinuxContainerResources))
def test_without_a_base_only_the_oom_score_is_dropped_and_reported(requests: pb.LinuxContainerResources) -> None:
    package = to_nri(valid(requests))
    back = to_cri(package.value)
    assert {one.field for one in package.dropped} == ({"oom_score_adj"} if requests.oom_score_adj else set())
    assert not back.dropped
    back.value.oom_score_adj = requests.oom_score_adj
    assert back.value == requests


@given(messages(m.LinuxResources))
def test_a_plugins_resources_reach_the_cri_or_are_reported_as_dropped(expected: m.LinuxResources) -> None:
    converted = to_cri(expected)
    lost = {re.sub(r"\[\d+\].*|\.value$|\.limit$", "", one.field) for one in converted.dropped}
    assume(all(part.value >= 0 for part in (expected.cpu.shares, expected.cpu.period)))
    back = to_nri(converted.value).value
    for part, names in (("cpu", m.LinuxCPU.DESCRIPTOR), ("memory", m.LinuxMemory.DESCRIPTOR)):
        for name in names.fields_by_name:
            remote, local = getattr(getattr(expected, part), name), getattr(getattr(back, part), name)
            missing = {f"{part}.{name}", f"{part}.{name}.value"}
            assert local == remote or missing & {one.field for one in converted.dropped} or remote == type(remote)()
    for name in ("blockio_class", "rdt_class", "pids"):
        assert expected.HasField(name) == (name in {path.partition(".")[0] for path in lost})
    assert bool(expected.devices) == ("devices" in lost)
    assert dict(back.unified) == dict(expected.unified)


@given(messages(m.LinuxResources))
def test_resources_survive_the_conversion_to_a_spec_and_back(expected_: m.LinuxResources) -> None:
    expected = oci_resources.without_unset(expected_)
    back = from_oci(oci_resources.to_oci(expected))
    assert not back.dropped
    for name in ("blockio_class", "rdt_class"):
        expected.ClearField(name)
    if expected.HasField("pids"):
        expected.pids.limit = max(expected.pids.limit, -1)
    assert back.value == expected


@given(messages(pb.PodSandboxConfig))
def test_every_field_of_a_pod_is_converted_or_reported(config: pb.PodSandboxConfig) -> None:
    for resources in (config.linux.overhead, config.linux.resources):
        valid(resources)
    converted = pod_sandbox(pb.PodSandboxStatus(id="p1"), config)
    carried = paths(config) - {one.field for one in converted.dropped}
    shown = {"metadata.name", "metadata.uid", "metadata.namespace", "labels", "annotations", "linux.cgroup_parent"}
    assert all(path in shown or path.startswith(("linux.overhead", "linux.resources")) for path in carried)
    assert {one.field for one in converted.dropped} <= paths(config)
    pod = converted.value
    assert (pod.name, pod.uid, pod.namespace) == (config.metadata.name, config.metadata.uid, config.metadata.namespace)
    assert (pod.labels, pod.annotations) == (config.labels, config.annotations)
    assert pod.linux.cgroup_parent == config.linux.cgroup_parent
    assert pod.linux.HasField("pod_overhead") == config.linux.HasField("overhead")


@given(messages(pb.ContainerConfig))
def test_every_field_of_a_container_is_converted_or_reported(config: pb.ContainerConfig) -> None:
    converted = container(pb.ContainerStatus(id="c1"), config, {}, pod_id="p1")
    assert {one.field for one in converted.dropped} <= paths(config)
    assert all(str(one).isprintable() for one in converted.dropped)
    value_ = converted.value
    assert (value_.name, value_.labels, value_.annotations) == (config.metadata.name, config.labels, config.annotations)
    assert [device.name for device in value_.CDI_devices] == [device.name for device in config.CDI_devices]
    assert value_.linux.HasField("seccomp_profile") == config.linux.security_context.HasField("seccomp")
