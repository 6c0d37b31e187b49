"""Changes of an answer, field by field."""

import pytest

from nri.adaptation.audit.diff import Change, of_adjustment, of_update, plain, show
from nri.api import messages as m


def container(**parts):
    return m.Container(id="c1", **parts)


def linux(**parts):
    return m.ContainerAdjustment(linux=m.LinuxContainerAdjustment(**parts))


def resources(**parts):
    return linux(resources=m.LinuxResources(**parts))


def hooks(*paths):
    return m.Hooks(prestart=[m.Hook(path=path) for path in paths])


CASES = {
    "a new variable": (
        m.ContainerAdjustment(env=[m.KeyValue(key="A", value="1=2")]), container(), ("Env", "A", None, "1=2")),
    "a variable that was there": (
        m.ContainerAdjustment(env=[m.KeyValue(key="A", value="1")]), container(env=["A=0", "B=x"]),
        ("Env", "A", "0", "1")),
    "a variable that goes": (
        m.ContainerAdjustment(env=[m.KeyValue(key="-A")]), container(env=["A=0"]), ("Env", "A", "0", None)),
    "an annotation": (
        m.ContainerAdjustment(annotations={"k": "v"}), container(annotations={"k": "w"}),
        ("Annotations", "k", "w", "v")),
    "an annotation that goes": (
        m.ContainerAdjustment(annotations={"-k": ""}), container(annotations={"k": "w"}),
        ("Annotations", "k", "w", None)),
    "a mount": (
        m.ContainerAdjustment(mounts=[m.Mount(destination="/d", source="/s", options=["ro"])]), container(),
        ("Mounts", "/d", None, {"destination": "/d", "source": "/s", "options": ["ro"]})),
    "arguments": (
        m.ContainerAdjustment(args=["sh", "-c"]), container(args=["cat"]), ("Args", "", ["cat"], ["sh", "-c"])),
    "arguments taken over": (
        m.ContainerAdjustment(args=["", "sh"]), container(args=["cat"]), ("Args", "", ["cat"], ["sh"])),
    "a hook next to another": (
        m.ContainerAdjustment(hooks=hooks("/b")), container(hooks=hooks("/a")),
        ("OciHooks", "", {"prestart": [{"path": "/a"}]}, {"prestart": [{"path": "/a"}, {"path": "/b"}]})),
    "a number in a wrapper": (
        resources(memory=m.LinuxMemory(limit=m.OptionalInt64(value=2**40))), container(),
        ("MemLimit", "", None, 2**40)),
    "a zero that is set": (
        resources(memory=m.LinuxMemory(limit=m.OptionalInt64(value=0))), container(), ("MemLimit", "", None, 0)),
    "a text": (
        resources(cpu=m.LinuxCPU(cpus="0-3")),
        container(linux=m.LinuxContainer(resources=m.LinuxResources(cpu=m.LinuxCPU(cpus="7")))),
        ("CPUSetCPUs", "", "7", "0-3")),
    "a device rule next to another": (
        resources(devices=[m.LinuxDeviceCgroup(allow=True)]),
        container(linux=m.LinuxContainer(resources=m.LinuxResources(devices=[m.LinuxDeviceCgroup(access="w")]))),
        ("linux.resources.devices", "", [{"access": "w"}], [{"access": "w"}, {"allow": True}])),
    "a device rule": (
        resources(devices=[m.LinuxDeviceCgroup(allow=True, access="r")]), container(),
        ("linux.resources.devices", "", None, [{"allow": True, "access": "r"}])),
    "an enum": (
        linux(scheduler=m.LinuxScheduler(policy=2, flags=[1])), container(),
        ("LinuxSched", "", None, {"policy": "SCHED_FIFO", "flags": ["SCHED_FLAG_RECLAIM"]})),
    "a field that containers do not show": (
        linux(memory_policy=m.LinuxMemoryPolicy(mode=2, nodes="0")), container(),
        ("MemoryPolicy", "", None, {"mode": "MPOL_BIND", "nodes": "0"})),
    "a device of the container device interface": (
        m.ContainerAdjustment(CDI_devices=[m.CDIDevice(name="v/c=d")]), container(),
        ("CdiDevices", "v/c=d", None, "v/c=d")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_change_has_the_values_before_and_after(case):
    adjust, before, expected = CASES[case]
    assert of_adjustment(adjust, before) == [Change("c1", *expected)]


def test_an_unchanged_value_is_not_a_change():
    assert of_adjustment(m.ContainerAdjustment(env=[m.KeyValue(key="A", value="0")]), container(env=["A=0"])) == []


def test_removing_a_missing_key_is_not_a_change():
    assert of_adjustment(m.ContainerAdjustment(env=[m.KeyValue(key="-A")]), container()) == []


def test_an_update_is_compared_with_known_resources():
    update = m.ContainerUpdate(container_id="c2")
    update.linux.resources.unified["memory.high"] = "1"
    update.linux.resources.pids.limit = 5
    resources = m.LinuxResources(pids=m.LinuxPids(limit=9))
    assert of_update(update, resources) == [
        Change("c2", "CgroupsUnified", "memory.high", None, "1"),
        Change("c2", "PidsLimit", "", 9, 5),
    ]


def test_comparing_does_not_modify_the_messages():
    adjust, before = m.ContainerAdjustment(args=["x"], annotations={"-a": ""}), container()
    bytes_before = adjust.SerializeToString(), before.SerializeToString()
    of_adjustment(adjust, before)
    assert (adjust.SerializeToString(), before.SerializeToString()) == bytes_before


def test_a_readable_line_has_quoted_texts_and_shortened_values():
    assert str(Change("c1", "Env", "A", None, "1")) == 'Env A: - -> "1"'
    assert len(show("x" * 500)) == 80
    assert show({"on": [1, "a"], "off": None}) == '{on: [1, "a"], off: -}'


def test_known_enum_values_are_names_and_unknown_ones_numbers():
    state = m.Container.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_name
    assert plain(m.Container(id="c", state=state["CONTAINER_RUNNING"].number))["state"] == "CONTAINER_RUNNING"
    assert plain(m.Container(id="c", state=77))["state"] == 77


def test_plain_values_are_json_values():
    assert plain(m.OptionalBool(value=False)) is False
    assert plain(m.LinuxRdt(schemata=m.OptionalRepeatedString(value=["a"]))) == {"schemata": ["a"]}
