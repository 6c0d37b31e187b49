"""`device-injector`: annotations, refusals and log lines."""

from __future__ import annotations

import logging

import pytest

import nri
from nri.plugins.device_injector.plugin import KINDS, DeviceInjector
from nri.testing import CreateReply, FakeRuntime, make_container, make_pod
from tests.support.pruned import pruned

DOMAIN = "noderesource.dev"


def create(runtime: FakeRuntime, **annotations: str) -> CreateReply:
    """The container c0 of a pod with these annotations; `devices_` stands for the container's own."""
    if not runtime.plugins:
        runtime.add(DeviceInjector(), idx="10")
    named = {
        f"{key.rstrip('_').replace('_', '-')}.{DOMAIN}{'/container.c0' * key.endswith('_')}": text
        for key, text in annotations.items()
    }
    return runtime.create_container(make_pod(annotations=named), make_container("c0"))


def refusal(runtime: FakeRuntime, **annotations: str) -> str:
    with pytest.raises(nri.PluginRejected) as raised:
        create(runtime, **annotations)
    return raised.value.reason


def test_every_kind_has_its_effect(nri_runtime: FakeRuntime) -> None:
    reply = create(
        nri_runtime,
        devices_="[{path: /dev/null1, type: c, major: 1, minor: 3, file_mode: 0666, uid: 5, gid: 6}]",
        cdi_devices_="[vendor0.com/device=null]",
        mounts_="[{source: /srv, destination: /mnt, type: bind, options: [rbind, ro]}]",
        io_priority_="{class: IOPRIO_CLASS_BE, priority: 3}",
        scheduling_policy_="{policy: SCHED_FIFO, priority: 10, flags: [SCHED_FLAG_RESET_ON_FORK]}",
        network_devices_="[{hostIf: ens2.100, Name: netdev0}]",
        sysctl_="{net.core.somaxconn: 256}",
        memory_policy_="{mode: MPOL_BIND, nodes: '0-1', flags: [MPOL_F_STATIC_NODES]}",
    )
    expected = (
        nri.Adjustment()
        .add_device("/dev/null1", "c", 1, 3, file_mode=0o666, uid=5, gid=6)
        .add_cdi_device("vendor0.com/device=null")
        .add_mount("/mnt", "/srv", "bind", ["rbind", "ro"])
        .set_io_priority("BE", 3)
        .set_scheduler("FIFO", priority=10, flags=["RESET_ON_FORK"])
        .add_net_device("ens2.100", "netdev0")
        .set_sysctl("net.core.somaxconn", "256")
        .set_memory_policy("BIND", "0-1", ["STATIC_NODES"])
    )
    assert pruned(reply.adjust) == expected


def test_a_mount_of_a_file_system_requires_no_source(nri_runtime: FakeRuntime) -> None:
    reply = create(nri_runtime, mounts="[{destination: /scratch, type: tmpfs, options: [size=64k]}]")
    assert pruned(reply.adjust) == nri.Adjustment().add_mount("/scratch", "", "tmpfs", ["size=64k"])


def test_a_deadline_policy_has_its_times(nri_runtime: FakeRuntime) -> None:
    reply = create(nri_runtime, scheduling_policy="{policy: SCHED_DEADLINE, runtime: 1, deadline: 2, period: 3}")
    assert pruned(reply.adjust) == nri.Adjustment().set_scheduler("DEADLINE", runtime_ns=1, deadline_ns=2, period_ns=3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if len(kind.keys) > 1], ids=lambda kind: kind.name)
def test_annotations_of_the_old_domain_are_read(nri_runtime: FakeRuntime, kind) -> None:
    values = {
        "devices": "[{path: /dev/x, type: b, major: 1}]",
        "CDI devices": "[v.com/c=d]",
        "mounts": "[{source: /a, destination: /b}]",
        "I/O priority": "{class: RT}",
        "scheduler": "{policy: IDLE}",
        "network devices": "[{hostIf: eth1}]",
        "memory policy": "{mode: LOCAL}",
    }
    nri_runtime.add(DeviceInjector(), idx="10")
    outcomes = [
        nri_runtime.create_container(
            make_pod(annotations={f"{key}/pod": values[kind.name]}), make_container("c0")
        ).adjust
        for key in kind.keys
    ]
    assert outcomes[0] == outcomes[1] != nri.Adjustment()


#: Kind -> a wrong value, and the refusal after the annotation's name.
WRONG = [
    ("devices", "[{type: c, major: 1}]", "[0]: path is missing; add 'path: ...'"),
    ("devices", "[{path: dev/x, type: c, major: 1}]", "[0].path: must be an absolute path, not 'dev/x'"),
    ("devices", "[{path: /dev/x, type: x, major: 1}]", "[0].type: must be one of c, b, u, p, not 'x'"),
    ("devices", "[{path: /dev/x, type: c}]", "[0]: major is missing or 0; add 'major: ...'"),
    ("devices", "[{path: /d, type: c, major: x}]", '[0].major: "x" is not a number; write a whole number'),
    ("devices", "[{path: /d, type: c, major: -1}]", "[0].major: must not be negative: -1"),
    ("devices", "[{path: /d, type: c, major: 1, minor: -1}]", "[0].minor: must not be negative: -1"),
    (
        "devices",
        "[{path: /d, type: c, major: 1, file_mode: 77777777}]",
        "[0].file_mode: 77777777 is not a file mode; write, for example, 0660",
    ),
    ("devices", "[{path: /d, type: c, major: 1, uid: -1}]", "[0].uid: must be between 0 and 4294967295, not -1"),
    (
        "devices",
        "[{path: /d, type: c, major: 1}, {path: /d, type: c, major: 2}]",
        '[1].path: "/d" is already at [0].path; remove one of the two',
    ),
    (
        "cdi_devices",
        "[v.com/c=d, gpu]",
        "[1]: must be vendor/class=device, for example vendor.com/net=eth0, not 'gpu'",
    ),
    ("mounts", "[{source: /a}]", "[0]: destination is missing; add 'destination: ...'"),
    ("mounts", "[{destination: /b}]", "[0]: source is missing; add 'source: ...', or the type of a file system"),
    ("mounts", "[{destination: /b, type: none, options: [rbind]}]", "[0]: source is missing; add 'source: ...', "),
    ("mounts", "[{source: /a, destination: b}]", "[0].destination: must be an absolute path, not 'b'"),
    (
        "mounts",
        "[{source: /a, destination: -/b}]",
        "[0].destination: must not start with '-', which requests a removal: '-/b'; remove the '-': annotations",
    ),
    ("io_priority", "{priority: 1}", "class is missing; add 'class: ...'"),
    ("io_priority", "{class: FAST}", "class: must be one of NONE, RT, BE, IDLE, not 'FAST'"),
    ("io_priority", "{class: RT, priority: 8}", "priority: must be between 0 and 7, not 8"),
    (
        "scheduling_policy",
        "{policy: SCHED_FAST}",
        "policy: must be one of NONE, OTHER, FIFO, RR, BATCH, ISO, IDLE, DEADLINE, not 'SCHED_FAST'",
    ),
    ("scheduling_policy", "{nice: 1}", "policy is missing; add 'policy: ...'"),
    ("scheduling_policy", "{policy: OTHER, nice: 20}", "nice: must be between -20 and 19, not 20"),
    ("scheduling_policy", "{policy: RR, runtime: -1}", "runtime: must be between 0 and 18446744073709551615, not -1"),
    ("network_devices", "[~]", "[0]: expected a mapping of keys to values, not nothing; write 'key: value'"),
    (
        "network_devices",
        "[{hostIf: a/b}]",
        "[0].hostIf: 'a/b' is not the name of a network device; write 1 to 15 characters",
    ),
    (
        "network_devices",
        "[{hostIf: eth1, name: sixteen-letters-}]",
        "[0].name: 'sixteen-letters-' is not the name of a network device",
    ),
    ("network_devices", "[{name: eth0}]", "[0]: hostIf is missing; add 'hostIf: ...'"),
    (
        "network_devices",
        "[{hostIf: a, name: eth0}, {hostIf: b, name: eth0}]",
        '[1].name: "eth0" is already at [0].name; remove one of the two',
    ),
    ("sysctl", "{net.core.somaxconn: }", "net.core.somaxconn: the value is missing; write a value, or remove the key"),
    (
        "sysctl",
        "{-a.b: c}",
        "-a.b: must not start with '-', which requests a removal: '-a.b'; remove the '-': annotations only add",
    ),
    ("memory_policy", "{mode: MPOL_NEAR}", None),
    ("memory_policy", "{nodes: '0'}", "mode is missing; add 'mode: ...'"),
    ("memory_policy", "{mode: BIND, nodes: 0-}", None),
    ("memory_policy", "{mode: BIND, flags: [X]}", "flags[0]: must be one of "),
    ("memory_policy", "[", "line 2: not valid YAML: did not find expected node content"),
]


@pytest.mark.parametrize(("kind", "text", "message"), WRONG)
def test_a_wrong_value_is_refused_with_its_annotation(
    nri_runtime: FakeRuntime, kind: str, text: str, message: str | None
) -> None:
    reason = refusal(nri_runtime, **{f"{kind}_": text})
    beginning = f"annotation {kind.replace('_', '-')}.{DOMAIN}/container.c0: "
    assert reason.startswith(beginning + (message or ""))


def test_the_plugin_subscribes_only_to_creations(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(DeviceInjector(), idx="10")
    assert nri_runtime.health("10-device-injector").events == "CreateContainer"


def test_a_container_without_annotations_is_unchanged(nri_runtime: FakeRuntime) -> None:
    assert pruned(create(nri_runtime).adjust) == nri.Adjustment()
    reply = create(nri_runtime, devices="", mounts="[]", sysctl="{}", io_priority="# later", scheduling_policy="~")
    assert pruned(reply.adjust) == nri.Adjustment()


def test_the_containers_annotation_overrides_the_pods(nri_runtime: FakeRuntime) -> None:
    reply = create(nri_runtime, sysctl_="{a.b: 1}", sysctl="{a.b: 2, c.d: 3}")
    assert pruned(reply.adjust) == nri.Adjustment().set_sysctl("a.b", "1")


def test_an_empty_annotation_of_the_container_disables_the_pods(nri_runtime: FakeRuntime) -> None:
    assert pruned(create(nri_runtime, sysctl_="", sysctl="{a.b: 2}").adjust) == nri.Adjustment()


def test_after_a_refusal_the_next_container_is_adjusted(nri_runtime: FakeRuntime) -> None:
    refusal(nri_runtime, sysctl="x")
    assert pruned(create(nri_runtime, sysctl="{a.b: 1}").adjust) == nri.Adjustment().set_sysctl("a.b", "1")


def test_changes_and_ignored_keys_are_logged(nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    create(nri_runtime, mounts="[{source: /a, destination: /b, option: ro}]")
    lines = [(one.levelname, one.getMessage()) for one in caplog.records if one.name.startswith("nri.plugin")]
    assert [(level, line.partition(" [pod")[0]) for level, line in lines] == [
        (
            "WARNING",
            'annotation mounts.noderesource.dev: [0].option: unknown key, ignored (did you mean "options"?)',
        ),
        ("INFO", "mounts: /a -> /b"),
    ]


def test_log_lines_are_short_also_for_many_changes(nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    nri_runtime.timeout(20)
    create(nri_runtime, mounts="\n".join(f"- {{source: /a, destination: /b/{number}}}" for number in range(1000)))
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("mounts: ")]
    assert len(line) < 1200


def test_a_file_mode_with_more_than_permissions_logs_a_warning(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    create(nri_runtime, devices="[{path: /dev/x, type: c, major: 1, file_mode: 660}]")
    lines = "[0].file_mode: 660 is 0o1224, which has more than permission bits (octal has a leading 0, as in 0660)"
    assert any(lines in text for text in caplog.messages)
    caplog.clear()
    create(nri_runtime, devices="[{path: /dev/x, type: c, major: 1, file_mode: 0660}]")
    assert not any("file_mode" in text for text in caplog.messages)
