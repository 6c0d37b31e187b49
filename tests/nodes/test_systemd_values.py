"""Values that the agent writes into cgroups of a real systemd last over a reload and new units."""

from __future__ import annotations

import logging
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from nri import host
from nri.host.cgroups import Write

#: A value for each setting that systemd can keep, other than the one it sets by itself.
VALUES: dict[str, int | frozenset[int]] = {
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
}
#: systemd has no property for these, so a reload may reset them.
WITHOUT_PROPERTY: dict[str, int] = {"cpu.cfs_burst": 1000, "memory.oom_group": 1}


def systemd(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=240)


@pytest.fixture
def slice_name() -> Iterator[str]:
    """Create a slice with a service in it, as a pod's is."""
    name = f"nritest{uuid.uuid4().hex[:8]}.slice"
    service = name.replace(".slice", ".service")
    systemd("systemd-run", f"--unit={service}", f"--slice={name}", "--property=Delegate=yes", "sleep", "100000")
    yield name
    systemd("systemctl", "stop", service)


@pytest.fixture
def writer() -> host.Writer:
    root = host.Root("/")
    return host.Writer(host.detect(root), refresh_s=0, units=host.SystemdUnits(root))


def differences(writer: host.Writer, cgroup: str) -> dict[str, object]:
    """The values of a cgroup that are not as they were written."""
    present = {name: writer.read(cgroup, name) for name in VALUES}
    return {name: value for name, value in present.items() if value != VALUES[name]}


def write_all(writer: host.Writer, cgroup: str) -> None:
    results = writer.write_all([Write(cgroup, name, value) for name, value in {**VALUES, **WITHOUT_PROPERTY}.items()])
    assert [str(result) for result in results if not result.in_force] == []


@pytest.mark.timeout(600)
def test_every_value_with_a_property_lasts_over_a_reload_and_a_new_unit(
    slice_name: str, writer: host.Writer, caplog: pytest.LogCaptureFixture
) -> None:
    service = f"{slice_name}/{slice_name.replace('.slice', '.service')}"
    with caplog.at_level(logging.WARNING):
        for cgroup in (slice_name, service):
            write_all(writer, cgroup)
    for cgroup in (slice_name, service):
        assert differences(writer, cgroup) == {}
        assert {name: writer.read(cgroup, name) for name in WITHOUT_PROPERTY} == WITHOUT_PROPERTY
    assert caplog.messages == []
    systemd("systemctl", "daemon-reload")
    systemd("systemd-run", "--scope", f"--slice={slice_name}", "true")
    for cgroup in (slice_name, service):
        assert differences(writer, cgroup) == {}, "after a reload and a new unit"


@pytest.mark.timeout(600)
def test_values_that_only_the_file_has_are_reset(slice_name: str) -> None:
    writer = host.Writer(host.detect(host.Root("/")), refresh_s=0)
    write_all(writer, slice_name)
    systemd("systemctl", "daemon-reload")
    assert differences(writer, slice_name), "systemd no longer resets values; nri.host.cgroups.systemd is not required"
