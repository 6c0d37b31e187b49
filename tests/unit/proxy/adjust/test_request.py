"""Adjustments as CRI requests, field by field. Unsupported fields are returned with their plugin."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation.merge.entries import Entry, read
from nri.api import messages as m
from nri.api.fields import ROWS, TREE
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import CLEAR_CPUS, TABLE, Owners, adjust
from nri.proxy.adjust.request import ByPath, node_of, put_devices, put_mounts

_MANY = 16_000


def test_the_order_of_entries_is_kept_and_new_entries_are_last() -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path=path, host_path="old") for path in "abab"])
    by_path = ByPath(config.mounts)
    assert "a" in by_path
    by_path.drop("a")
    assert "a" not in by_path
    by_path.add(pb.Mount(container_path="a", host_path="new"))
    by_path.drop("none")
    by_path.apply()
    assert [(mount.container_path, mount.host_path) for mount in config.mounts] == [
        ("b", "old"), ("b", "old"), ("a", "new"),
    ]  # fmt: skip


def test_the_cost_is_linear_in_the_number_of_devices_and_mounts() -> None:
    adjustment = m.ContainerAdjustment(
        mounts=[m.Mount(destination=f"/m{row}", source="/", type="bind") for row in range(_MANY)]
    )
    adjustment.linux.devices.extend(
        m.LinuxDevice(path=f"/dev/x{row}", type="c", major=1, minor=3) for row in range(_MANY)
    )
    actual = {row.row.path: row for row in read(adjustment, TREE)}
    config, before = pb.ContainerConfig(), time.process_time()
    assert put_devices(config, actual["linux.devices"]) == put_mounts(config, actual["mounts"]) == []
    assert len(config.devices) == len(config.mounts) == _MANY
    assert time.process_time() - before < 8


def test_the_cost_is_linear_in_the_number_of_unsupported_entries() -> None:
    adjustment = m.ContainerAdjustment(
        mounts=[m.Mount(destination=f"/m{row}", source="/", type="tmpfs") for row in range(_MANY)]
    )
    owners = m.OwningPlugins()
    for row in range(_MANY):
        owners.owners["c"].compound[m.Field.Value("Mounts")].owners[f"/m{row}"] = "10-a"
    before = time.process_time()
    unsaid = adjust(pb.ContainerConfig(), adjustment, Owners(owners, "c"))
    assert {row.plugin for row in unsaid} == {"10-a"}
    assert len(unsaid) == _MANY
    assert time.process_time() - before < 8


def mount_entry(*adjustment: m.Mount) -> Entry:
    (actual,) = (row for row in read(m.ContainerAdjustment(mounts=adjustment), TREE) if row.row.path == "mounts")
    return actual


def mount(destination: str, *options: str, kind: str = "bind") -> m.Mount:
    return m.Mount(destination=destination, source="/host", type=kind, options=options)


@pytest.mark.parametrize(
    ("options", "readonly", "recursive", "propagation"),
    [
        ((), False, False, pb.PROPAGATION_PRIVATE),
        (("ro", "rslave"), True, False, pb.PROPAGATION_HOST_TO_CONTAINER),
        (("rro", "rshared"), True, True, pb.PROPAGATION_BIDIRECTIONAL),
        (("ro", "rw"), False, False, pb.PROPAGATION_PRIVATE),
    ],
)
def test_a_bind_mount_has_its_options(
    options: tuple[str, ...], readonly: bool, recursive: bool, propagation: int
) -> None:
    config = pb.ContainerConfig()
    assert put_mounts(config, mount_entry(mount("/a", *options))) == []
    (cri_mount,) = config.mounts
    assert (cri_mount.container_path, cri_mount.host_path) == ("/a", "/host")
    assert (cri_mount.readonly, cri_mount.recursive_read_only, cri_mount.propagation) == (
        readonly,
        recursive,
        propagation,
    )


def test_other_mounts_and_unsupported_options_are_returned() -> None:
    config = pb.ContainerConfig()
    remainder = put_mounts(config, mount_entry(mount("/a", kind="tmpfs"), mount("/b", "nosuid", "ro")))
    assert [(key, value) for key, value, _ in remainder] == [("/a", "type tmpfs"), ("/b", "nosuid")]
    assert [row.container_path for row in config.mounts] == ["/b"]


def test_an_existing_mount_is_replaced_or_removed() -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/a", host_path="/old"), pb.Mount(container_path="/b")])
    assert put_mounts(config, mount_entry(m.Mount(destination="-/a"), mount("/a"), m.Mount(destination="-/b"))) == []
    assert [(row.container_path, row.host_path) for row in config.mounts] == [("/a", "/host")]


def test_a_mount_that_the_runtime_adds_cannot_be_removed() -> None:
    ((key, value, reason),) = put_mounts(pb.ContainerConfig(), mount_entry(m.Mount(destination="-/proc")))
    assert (key, value) == ("/proc", "removed")
    assert "the runtime adds it" in reason


NULL = m.LinuxDevice(path="/dev/null", type="c", major=1, minor=3)


def device_entry(*requested: m.LinuxDevice) -> Entry:
    adjustment = m.ContainerAdjustment()
    adjustment.linux.devices.extend(requested)
    (actual,) = (row for row in read(adjustment, TREE) if row.row.path == "linux.devices")
    return actual


def test_a_device_node_is_found_by_path_or_numbers() -> None:
    assert node_of(NULL) == "/dev/null"
    elsewhere = m.LinuxDevice(path="/dev/nothing-here", type="c", major=1, minor=3)
    assert node_of(elsewhere) == "/dev/null"


@pytest.mark.parametrize(
    "device",
    [
        m.LinuxDevice(path="/dev/nothing", type="c", major=4000, minor=9),
        m.LinuxDevice(path="/dev/nothing", type="p"),
        m.LinuxDevice(path="/dev/null", type="b", major=4000, minor=3),
        m.LinuxDevice(path="/dev/n\0ull", type="p", major=1, minor=3),
    ],
)
def test_a_device_without_a_node_has_no_path(device: m.LinuxDevice) -> None:
    assert node_of(device) == ""


def test_a_node_that_only_the_kernel_names_has_no_path(tmp_path: Path) -> None:
    folder = tmp_path / "sys/dev/char/1:3"
    folder.mkdir(parents=True)
    (folder / "uevent").write_text("MAJOR=1\nDEVNAME=null\n")
    assert node_of(NULL, tmp_path) == ""


def test_devices_are_added_and_lost_settings_are_returned() -> None:
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/null", host_path="/dev/old")])
    linux_device = m.LinuxDevice(path="/dev/null", type="c", major=1, minor=3)
    linux_device.file_mode.value = 0o600
    missing = m.LinuxDevice(path="/dev/x", type="c", major=4000, minor=9)
    remainder = put_devices(config, device_entry(linux_device, missing))
    assert [(device.container_path, device.host_path, device.permissions) for device in config.devices] == [
        ("/dev/null", "/dev/null", "rwm")
    ]
    assert [(key, value) for key, value, _ in remainder] == [("/dev/null", "file_mode 600"), ("/dev/x", "c 4000:9")]


def test_only_devices_of_the_request_can_be_removed() -> None:
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/a")])
    remainder = put_devices(config, device_entry(m.LinuxDevice(path="-/dev/a"), m.LinuxDevice(path="-/dev/tty")))
    assert not config.devices
    assert [(key, value) for key, value, _ in remainder] == [("/dev/tty", "removed")]


ROOT = Path(__file__).parents[4]
NOBODY = Owners(m.OwningPlugins(), "c")


def unsupported_fields(config: pb.ContainerConfig, expected: nri.Adjustment, owners: Owners = NOBODY) -> list[str]:
    """Put an adjustment into a configuration; returns the fields that were not said."""
    return [unsupported.field for unsupported in adjust(config, expected.message, owners)]


def test_every_adjustable_field_has_a_row_in_order() -> None:
    assert list(TABLE) == [row.path for row in ROWS]
    assert all(row.how or row.limits for row in TABLE.values())


def test_the_table_is_on_the_documentation_page() -> None:
    page = (ROOT / "docs/reference/proxy.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \| (.*?) \|$", page, re.MULTILINE)
    reasons = [
        (field, "", reason)
        for fields, reason in re.findall(r"^- (`.+?`): (.+)\.$", page, re.MULTILINE)
        for field in re.findall(r"`([\w.]+)`", fields)
    ]
    shown = {(path, row.how, row.limits) for path, row in TABLE.items()}
    assert {row for row in [*rows, *reasons] if row[0] in TABLE} == shown


def test_variables_are_set_replaced_and_removed() -> None:
    config = pb.ContainerConfig(envs=[pb.KeyValue(key=key, value=b"old") for key in ("STAYS", "GOES", "CHANGES")])
    expected = nri.Adjustment().add_env("NEW", "1").remove_env("GOES").add_env("CHANGES", "2").remove_env("OF_IMAGE")
    assert unsupported_fields(config, expected) == ["env[OF_IMAGE]"]
    assert {env.key: env.value for env in config.envs} == {"STAYS": b"old", "NEW": b"1", "CHANGES": b"2"}


def test_annotations_are_set_and_removed() -> None:
    config = pb.ContainerConfig(annotations={"stays": "1", "goes": "2"})
    expected = nri.Adjustment().add_annotation("new", "3").remove_annotation("goes").remove_annotation("of-runtime")
    assert unsupported_fields(config, expected) == ["annotations[of-runtime]"]
    assert dict(config.annotations) == {"stays": "1", "new": "3"}


def test_arguments_replace_command_and_arguments() -> None:
    config = pb.ContainerConfig(command=["old"], args=["too"])
    adjustment = nri.Adjustment()
    adjustment.message.args.extend(["", "new", "words"])
    assert unsupported_fields(config, adjustment) == []
    assert (list(config.command), list(config.args)) == (["new", "words"], [])


def bind(destination: str, *options: str, source: str = "/src", kind: str = "bind") -> nri.Adjustment:
    adjustment = nri.Adjustment()
    adjustment.message.mounts.add(destination=destination, source=source, type=kind, options=options)
    return adjustment


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (("rbind", "ro"), {"readonly": True}),
        (("bind", "rw"), {}),
        (("rbind", "rro"), {"readonly": True, "recursive_read_only": True}),
        (("rbind", "rprivate"), {}),
        (("rbind", "rslave"), {"propagation": pb.PROPAGATION_HOST_TO_CONTAINER}),
        (("rbind", "rshared", "ro"), {"propagation": pb.PROPAGATION_BIDIRECTIONAL, "readonly": True}),
        (("rbind", "ro", "rw"), {}),
    ],
)
def test_a_bind_mount_is_added_with_its_options(options: tuple[str, ...], fields: dict[str, Any]) -> None:
    config = pb.ContainerConfig()
    assert unsupported_fields(config, bind("/at", *options)) == []
    assert list(config.mounts) == [pb.Mount(container_path="/at", host_path="/src", **fields)]


def test_a_mount_replaces_the_mount_with_its_destination_and_others_can_be_removed() -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path=at, host_path="/old") for at in ("/a", "/b", "/c")])
    expected = bind("/a", "rbind")
    expected.message.mounts.add(destination="-/b")
    expected.message.mounts.add(destination="-/proc")
    assert unsupported_fields(config, expected) == ["mounts[/proc]"]
    assert {mount.container_path: mount.host_path for mount in config.mounts} == {"/a": "/src", "/c": "/old"}


def test_other_kinds_of_mounts_and_unsupported_options_are_returned() -> None:
    config = pb.ContainerConfig()
    assert unsupported_fields(config, bind("/t", kind="tmpfs", source="tmpfs")) == ["mounts[/t]"]
    assert not config.mounts
    assert unsupported_fields(config, bind("/x", "rbind", "noexec")) == ["mounts[/x]"]
    assert config.mounts[0].container_path == "/x"


def device(path: str, node: str, **more: Any) -> nri.Adjustment:
    actual = os.stat(node)
    adjustment = nri.Adjustment()
    adjustment.message.linux.devices.add(
        path=path, type="c", major=os.major(actual.st_rdev), minor=os.minor(actual.st_rdev), **more
    )
    return adjustment


def test_a_device_is_the_hosts_node_with_its_numbers() -> None:
    config = pb.ContainerConfig()
    assert unsupported_fields(config, device("/dev/null", "/dev/null")) == []
    assert unsupported_fields(config, device("/dev/nothing", "/dev/null")) == []
    assert [(row.container_path, row.host_path, row.permissions) for row in config.devices] == [
        ("/dev/null", "/dev/null", "rwm"),
        ("/dev/nothing", "/dev/null", "rwm"),
    ]


def test_devices_without_a_host_node_and_other_modes_are_returned() -> None:
    config = pb.ContainerConfig()
    missing = nri.Adjustment()
    missing.message.linux.devices.add(path="/dev/none", type="c", major=4000, minor=3)
    assert unsupported_fields(config, missing) == ["linux.devices[/dev/none]"]
    mode = m.OptionalFileMode(value=0o600)
    assert unsupported_fields(config, device("/dev/null", "/dev/null", file_mode=mode)) == ["linux.devices[/dev/null]"]
    assert [row.container_path for row in config.devices] == ["/dev/null"]


def test_only_devices_of_the_request_can_be_removed_or_replaced() -> None:
    config = pb.ContainerConfig(
        devices=[pb.Device(container_path=at, host_path="/dev/zero") for at in ("/dev/goes", "/dev/null")]
    )
    expected = device("/dev/null", "/dev/null", uid=m.OptionalUInt32(value=77))
    for path in ("-/dev/goes", "-/dev/of-runtime"):
        expected.message.linux.devices.add(path=path)
    assert unsupported_fields(config, expected) == ["linux.devices[/dev/null]", "linux.devices[/dev/of-runtime]"]
    assert [(row.container_path, row.host_path) for row in config.devices] == [("/dev/null", "/dev/null")]


@pytest.mark.parametrize(
    ("text", "node"),
    [("MAJOR=1\nDEVNAME=there\n", "/dev/there"), ("DEVNAME=gone\n", ""), ("MAJOR=1\n", ""), (None, "")],
)
def test_a_node_is_found_through_sysfs_and_checked(tmp_path: Path, text: str | None, node: str) -> None:
    actual = os.stat("/dev/null")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/there").symlink_to("/dev/null")
    numbers = f"{os.major(actual.st_rdev)}:{os.minor(actual.st_rdev)}"
    if text is not None:
        folder = tmp_path / "sys/dev/char" / numbers
        folder.mkdir(parents=True)
        (folder / "uevent").write_text(text)
    expected = device("/dev/elsewhere", "/dev/null").message.linux.devices[0]
    assert node_of(expected, tmp_path) == node
    expected.type = "p"
    assert node_of(expected, tmp_path) == ""


def test_resources_override_those_of_the_request() -> None:
    config = pb.ContainerConfig()
    config.linux.resources.cpu_shares = 2
    config.linux.resources.oom_score_adj = 900
    expected = (
        nri.Adjustment().set_cpu_quota(5000).set_cpu_period(100_000).set_memory_limit(1 << 20).set_oom_score_adj(-5)
    )
    expected.add_hugepage_limit("2MB", 4 << 20).add_unified("memory.high", "9").set_memory_swap(2 << 20)
    assert unsupported_fields(config, expected) == []
    assert config.linux.resources == pb.LinuxContainerResources(
        cpu_shares=2,
        cpu_quota=5000,
        cpu_period=100_000,
        memory_limit_in_bytes=1 << 20,
        memory_swap_limit_in_bytes=2 << 20,
        oom_score_adj=-5,
        hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=4 << 20)],
        unified={"memory.high": "9"},
    )


def test_a_zero_that_means_unset_in_the_cri_is_returned() -> None:
    config = pb.ContainerConfig()
    adjustment = nri.Adjustment()
    adjustment.message.linux.resources.cpu.shares.SetInParent()
    assert unsupported_fields(config, adjustment) == ["linux.resources.cpu.shares"]


def test_an_annotation_can_remove_the_requested_cpus() -> None:
    config = pb.ContainerConfig()
    config.linux.resources.cpuset_cpus = "0-1"
    assert unsupported_fields(config, nri.Adjustment().add_annotation(CLEAR_CPUS, "yes")) == []
    assert (config.linux.resources.cpuset_cpus, dict(config.annotations)) == ("", {})


def test_cdi_devices_are_added_once() -> None:
    config = pb.ContainerConfig(CDI_devices=[pb.CDIDevice(name="v/c=a")])
    assert unsupported_fields(config, nri.Adjustment().add_cdi_device("v/c=a").add_cdi_device("v/c=b")) == []
    assert [device.name for device in config.CDI_devices] == ["v/c=a", "v/c=b"]


def namespace(expected: nri.Adjustment) -> None:
    expected.message.linux.namespaces.add(type="network", path="/x")


UNSAYABLE: dict[str, Callable[[nri.Adjustment], object]] = {
    "rlimits[RLIMIT_CORE]": lambda adjustment: adjustment.add_rlimit("RLIMIT_CORE", 1, 1),
    "linux.resources.pids": lambda adjustment: adjustment.set_pids_limit(5),
    "linux.cgroups_path": lambda adjustment: adjustment.set_cgroups_path("/a"),
    "linux.resources.blockio_class": lambda adjustment: adjustment.set_blockio_class("b"),
    "linux.resources.rdt_class": lambda adjustment: adjustment.set_rdt_class("b"),
    "linux.sysctl[a.b]": lambda adjustment: adjustment.message.linux.sysctl.update({"a.b": "c"}),
    "linux.namespaces[network]": namespace,
    "linux.resources.memory.reservation": lambda adjustment: adjustment.set_memory_reservation(5),
    "linux.resources.memory.swappiness": lambda adjustment: adjustment.set_memory_swappiness(5),
    "linux.rdt.clos_id": lambda adjustment: adjustment.message.linux.rdt.clos_id.MergeFrom(m.OptionalString(value="a")),
    "hooks": lambda adjustment: adjustment.message.hooks.poststop.add(path="/bin/true"),
}


@pytest.mark.parametrize("field", UNSAYABLE)
def test_fields_that_the_cri_lacks_are_returned(field: str) -> None:
    config = pb.ContainerConfig()
    adjustment = nri.Adjustment()
    UNSAYABLE[field](adjustment)
    assert unsupported_fields(config, adjustment) == [field]
    assert config.ByteSize() == 0 or config == pb.ContainerConfig(linux=pb.LinuxContainerConfig(resources={}))  # type: ignore[arg-type]


def test_returned_fields_name_their_plugin() -> None:
    owners = m.OwningPlugins()
    rlimits = next(row for row in ROWS if row.path == "rlimits")
    owners.owners["c"].compound[rlimits.claim].owners["RLIMIT_CORE"] = "10-limits"
    expected = nri.Adjustment().add_rlimit("RLIMIT_CORE", 1, 1)
    (unsupported,) = adjust(pb.ContainerConfig(), expected.message, Owners(owners, "c"))
    assert str(unsupported).startswith("rlimits[RLIMIT_CORE] of plugin 10-limits (")
