"""Values that the agent writes into cgroups of a real systemd survive a reload, new units and a restart."""

from __future__ import annotations

import logging
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nri import host
from nri.host.cgroups import KNOBS, Value, Write
from tests.support.waiting import wait_for

_DISK = "7:0"
#: A value for each setting that systemd can keep, other than the one it sets by itself.
VALUES: dict[str, Value] = {
    "cpu.shares": 186,  # a weight of cgroup v2, 8, stands for many numbers of shares
    "cpu.cfs_quota": 20_000,
    "cpu.cfs_period": 50_000,
    "cpuset.cpus": frozenset({1}),
    "cpuset.mems": frozenset({0}),
    "memory.limit": 256 << 20,
    "memory.swap_limit": 64 << 20,
    "memory.min": 1 << 20,
    "memory.low": 2 << 20,
    "memory.high": 200 << 20,
    "pids.limit": 99,
    "io.weight": 505,
}
#: systemd has no property for these, so a reload may reset them.
WITHOUT_PROPERTY: dict[str, Value] = {
    "cpu.cfs_burst": 1000,
    "memory.oom_group": 1,
    **{f"io.{name}": {_DISK: 1 << 20} for name in ("read_bps", "write_bps", "read_iops", "write_iops")},
    "io.device_weight": {_DISK: 300},
}
#: These need another cgroup, or a machine with other hardware: cpu.idle excludes a weight, costs are the root's.
APART = {"cpu.idle", "io.cost_model", "io.cost_qos", "hugetlb.SIZE.limit"}


def systemd(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=240)


@pytest.fixture(scope="module", autouse=True)
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A disk of memory, for limits by device."""
    image = tmp_path_factory.mktemp("disk") / "image"
    image.write_bytes(bytes(1 << 20))
    systemd("losetup", "/dev/loop0", str(image))
    Path("/sys/block/loop0/queue/scheduler").write_text("bfq")
    yield
    systemd("losetup", "-d", "/dev/loop0")


@pytest.fixture
def slice_name() -> Iterator[str]:
    """Create a slice with a service in it, as a pod's is."""
    name = f"nritest{uuid.uuid4().hex[:8]}.slice"
    service = name.replace(".slice", ".service")
    systemd("systemd-run", f"--unit={service}", f"--slice={name}", "--property=Delegate=yes", "sleep", "100000")
    yield name
    systemd("systemctl", "stop", service)


@pytest.fixture
def scope_name() -> Iterator[str]:
    """Create a delegated scope, as a container's is."""
    name = f"nritest{uuid.uuid4().hex[:8]}.scope"
    words = ("systemd-run", "--scope", f"--unit={name}", "--slice=system.slice", "--property=Delegate=yes", "sleep")
    with subprocess.Popen([*words, "100000"], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: Path(f"/sys/fs/cgroup/system.slice/{name}/cpu.max").exists(), f"{name} runs")
            yield name
        finally:
            process.kill()


@pytest.fixture
def writer() -> host.Writer:
    root = host.Root("/")
    return host.Writer(host.detect(root), refresh_s=0, units=host.SystemdUnits(root))


def differences(writer: host.Writer, cgroup: str, values: Mapping[str, Value] = VALUES) -> dict[str, object]:
    """The values of a cgroup that are not as they were written."""
    present = {name: writer.read(cgroup, name) for name in values}
    return {name: value for name, value in present.items() if value != values[name]}


def write_all(writer: host.Writer, cgroup: str) -> None:
    results = writer.write_all([Write(cgroup, name, value) for name, value in {**VALUES, **WITHOUT_PROPERTY}.items()])
    assert [str(result) for result in results if not result.in_force] == []


def test_every_file_of_cgroup_v2_is_tested() -> None:
    files = {row.name for row in KNOBS.values() if any(not place.only for place in row.v2)}
    assert files == VALUES.keys() | WITHOUT_PROPERTY.keys() | APART


@pytest.mark.timeout(900)
def test_every_value_with_a_property_survives_a_reload_a_new_unit_and_a_restart(
    slice_name: str, scope_name: str, writer: host.Writer, caplog: pytest.LogCaptureFixture
) -> None:
    unit = slice_name.replace(".slice", ".service")
    service, scope = f"{slice_name}/{unit}", f"system.slice/{scope_name}"
    with caplog.at_level(logging.WARNING):
        for cgroup in (slice_name, service, scope):
            write_all(writer, cgroup)
    for cgroup in (slice_name, service, scope):
        assert differences(writer, cgroup, {**VALUES, **WITHOUT_PROPERTY}) == {}
    assert caplog.messages == []
    systemd("systemctl", "daemon-reload")
    systemd("systemd-run", "--scope", f"--slice={slice_name}", "true")
    for cgroup in (slice_name, service, scope):
        assert differences(writer, cgroup) == {}, "after a reload and a new unit"
    systemd("systemctl", "restart", unit)
    for cgroup in (slice_name, service):
        assert differences(writer, cgroup) == {}, "after a restart of the service"


def test_values_without_a_systemd_property_are_reset(slice_name: str) -> None:
    writer = host.Writer(host.detect(host.Root("/")), refresh_s=0)
    write_all(writer, slice_name)
    systemd("systemctl", "daemon-reload")
    assert differences(writer, slice_name), "systemd no longer resets values; nri.host.cgroups.systemd is not required"


def test_cpu_idle_and_io_costs_are_written_and_read_back(slice_name: str, writer: host.Writer) -> None:
    assert writer.write(Write(slice_name, "cpu.idle", 1)).in_force
    assert writer.read(slice_name, "cpu.idle") == 1
    qos = "enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00"
    model = "ctrl=user model=linear rbps=1000 rseqiops=10 rrandiops=10 wbps=1000 wseqiops=10 wrandiops=10"
    for name, words in (("io.cost_qos", qos), ("io.cost_model", model)):
        assert writer.write(Write("", name, {_DISK: words})).in_force
        value = writer.read("", name)
        assert isinstance(value, Mapping)
        assert str(value[_DISK]).split()[:2] == words.split()[:2]
