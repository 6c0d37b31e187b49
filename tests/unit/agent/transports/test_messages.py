"""Contexts from NRI's messages, and changes as NRI's messages."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from nri.agent.koordinator import batch_resource, names
from nri.agent.model import AT_CREATION, Changes, Device, DeviceRule, Mount, Resctrl, Resources, Setting
from nri.agent.transports import messages
from nri.api import messages as m
from nri.host.cgroups.fields import FIELDS, unified_place

SPEC = json.dumps({"containers": {"c": {"limits": {names.BATCH_CPU: "500"}}}})


FULL = Changes(
    {"cpu.shares": 2, "cpu.cfs_quota": -1, "cpuset.cpus": "0-3", "memory.limit": -1, "oom_score_adj": -500},
    resctrl=Resctrl("koordlet-u", "L3:0=f\n"),
    env={"A": "1"},
    mounts=(Mount("/d", "bind", "/s", ("rbind",)),),
    devices=(Device("/dev/x", "c", 10, 20, 0o666),),
)


def nri_container(**resources: int) -> m.Container:
    container = m.Container(id="cid", name="c", env=["A=1", "B=", "=x", "C", "D=e=f"])
    container.linux.resources.cpu.shares.value = resources.get("shares", 0)
    container.linux.resources.cpu.quota.value = resources.get("quota", 0)
    container.linux.resources.memory.limit.value = resources.get("memory", 0)
    return container


def nri_pod() -> m.PodSandbox:
    pod = m.PodSandbox(
        namespace="ns", name="n", uid="u", labels={"l": "1"}, annotations={batch_resource.ANNOTATION_EXTENDED: SPEC}
    )
    pod.linux.cgroup_parent = "/kubepods/podu"
    return pod


def container(name: str, cpu: str = "", limit: str = "", **more: str) -> dict[str, object]:
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    limits = {"limits": {"cpu": limit, "memory": "1Gi"}} if limit else {}
    return {"name": name, "resources": {**requests, **limits}, **more}


def test_an_nri_container_becomes_a_context() -> None:
    context = messages.container_context(nri_pod(), nri_container(shares=512, quota=-1, memory=-7))
    assert (context.id, context.folder) == ("containerd://cid", "/kubepods/podu/cri-containerd-cid.scope")
    assert context.env == {"A": "1", "D": "e=f"}
    assert context.resources == Resources(cpu_shares=512, cfs_quota=-1, memory_limit=-1)
    assert (context.pod.namespace, context.pod.labels) == ("ns", {"l": "1"})
    assert context.pod.resources is None


def test_zero_is_unset_and_a_missing_linux_part_means_no_resources() -> None:
    assert messages.container_context(nri_pod(), nri_container()).resources == Resources()
    assert messages.container_context(nri_pod(), m.Container(id="c")).resources is None
    assert messages.container_context(m.PodSandbox(), m.Container(id="c")).folder == "cri-containerd-c.scope"


def test_folders_follow_the_driver_and_the_runtime() -> None:
    crio = messages.container_context(nri_pod(), m.Container(id="c"), "cri-o")
    assert crio.folder == "/kubepods/podu/crio-c.scope"
    plain = messages.container_context(nri_pod(), m.Container(id="c"), driver="cgroupfs")
    assert plain.folder == "/kubepods/podu/c"
    assert messages.container_id("c", {"io.kubernetes.docker.type": "container"}) == "docker://c"


def test_an_unreadable_batch_annotation_is_ignored() -> None:
    pod = nri_pod()
    pod.annotations[batch_resource.ANNOTATION_EXTENDED] = "not-json"
    assert messages.container_context(pod, nri_container()).extended is None


def test_an_adjustment_has_all_fields_of_nri() -> None:
    message = messages.adjustment(FULL)
    cpu = message.linux.resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.cpus) == (2, -1, "0-3")
    assert message.linux.resources.memory.limit.value == -1
    assert message.linux.resources.rdt_class.value == "koordlet-u"
    assert message.linux.oom_score_adj.value == -500
    assert [(entry.key, entry.value) for entry in message.env] == [("A", "1")]
    assert message.mounts[0] == m.Mount(destination="/d", type="bind", source="/s", options=["rbind"])
    assert message.linux.devices[0].file_mode.value == 0o666
    assert messages.adjustment(Changes()) == m.ContainerAdjustment()


def test_an_update_names_its_container_and_has_no_rdt_class() -> None:
    message = messages.update(FULL, "cid")
    assert message is not None
    assert (message.container_id, message.linux.resources.cpu.quota.value) == ("cid", -1)
    assert not message.linux.resources.HasField("rdt_class")
    assert messages.update(Changes(env={"A": "1"}), "cid") is None
    requested = messages.update(FULL, "cid", rdt_class=True)
    assert requested is not None and requested.linux.resources.rdt_class.value == "koordlet-u"


def test_nri_has_no_field_for_clearing_cpus() -> None:
    assert messages.adjustment(Changes({"cpuset.cpus": ""})) == m.ContainerAdjustment()


def values(names: Iterable[str]) -> dict[str, Setting]:
    """A value for each knob, of the type that it has."""
    texts = {"cpuset.cpus": "0-3", "cpuset.mems": "0", "blockio_class": "slow", "rdt_class": "gold"}
    return {name: texts.get(name, 1) for name in names}


def paths_of(kind: Descriptor, above: str = "") -> Iterator[str]:
    """The fields of a message and of its inner messages, except those that only wrap one value."""
    for field in kind.fields:
        inner = field.message_type
        if inner is None or field.is_repeated or [field.name for field in inner.fields] == ["value"]:
            yield f"{above}{field.name}"
        else:
            yield from paths_of(inner, f"{above}{field.name}.")


def test_changes_can_set_every_field_of_nris_resources() -> None:
    rule = DeviceRule(True, "c", 1, 3)
    changes = Changes({**values(FIELDS), "hugetlb.2MB.limit": 1, "unified.a": "b"}, device_rules=(rule,))
    resources = messages.adjustment(changes, lambda _: True).linux.resources
    message = {path for path in paths_of(m.LinuxResources.DESCRIPTOR) if _is_set(resources, path)}
    assert set(paths_of(m.LinuxResources.DESCRIPTOR)) - message == set()
    assert messages.reported(resources) == changes.knobs
    assert (resources.devices[0].major.value, resources.devices[0].access) == (1, "rwm")


def _is_set(resources: m.LinuxResources, path: str) -> bool:
    actual: Any = resources
    for name in path.split("."):
        actual = getattr(actual, name)
    return bool(getattr(actual, "value", actual))


def test_a_knob_without_a_field_becomes_a_cgroup_v2_file_if_available() -> None:
    changes = Changes({"memory.high": -1, "cpu.cfs_burst": 5000, "cpu.idle": 1})
    message = messages.update(changes, "cid", lambda _: True)
    assert message is not None
    assert dict(message.linux.resources.unified) == {"memory.high": "max", "cpu.max.burst": "5000", "cpu.idle": "1"}
    assert messages.reported(message.linux.resources) == changes.knobs
    assert messages.update(changes, "cid") is None


@pytest.mark.parametrize("knob", ["io.read_bps", "io.weight", "io.cost_model", "no.knob", "hugetlb.2MB.limit"])
def test_a_knob_with_several_files_or_lines_per_device_has_no_unified_file(knob: str) -> None:
    assert unified_place(knob) is None


def test_a_file_with_an_invalid_value_of_its_knob_is_reported_unchanged() -> None:
    resources = m.LinuxResources(unified={"memory.high": "a lot", "memory.reclaim": "1M"})
    assert messages.reported(resources) == {"unified.memory.high": "a lot", "unified.memory.reclaim": "1M"}
    assert messages.reported(m.LinuxResources()) == {}


def test_an_update_has_no_fields_that_only_a_creation_has() -> None:
    assert messages.update(Changes(values(AT_CREATION)), "cid", lambda _: True) is None
