"""Lists of a container are read as dictionaries."""

from __future__ import annotations

import pytest

import nri
from nri.api import messages as m
from nri.api import readers
from tests.support.received import resources


def test_lists_of_a_container_are_read_as_dictionaries() -> None:
    container = m.Container(
        env=["A=1", "B=x=y", "C", "A=2"],
        mounts=[m.Mount(destination="/a", source="/s")],
        rlimits=[m.POSIXRlimit(type="RLIMIT_CORE", hard=2, soft=1)],
        linux=m.LinuxContainer(
            devices=[m.LinuxDevice(path="/dev/x", type="c")], namespaces=[m.LinuxNamespace(type="pid", path="/p")]
        ),
    )
    assert readers.env_of(container) == {"A": "2", "B": "x=y", "C": ""}
    assert readers.mounts_of(container)["/a"].source == "/s"
    assert readers.devices_of(container)["/dev/x"].type == "c"
    assert readers.namespaces_of(container) == {"pid": "/p"}
    assert readers.rlimits_of(container) == {"RLIMIT_CORE": (2, 1)}


@pytest.mark.parametrize(
    ("reader", "sent", "expected"),
    [
        (nri.memory_limit_of, {"limit": 64 << 20}, 64 << 20),
        (nri.memory_limit_of, {"limit": 0}, None),
        (nri.memory_limit_of, {"limit": -1}, None),
        (nri.memory_limit_of, {}, None),
        (nri.cpu_shares_of, {"shares": 512}, 512),
        (nri.cpu_shares_of, {"shares": 0}, None),
        (nri.cpu_quota_of, {"quota": 50_000, "period": 200_000}, (50_000, 200_000)),
        (nri.cpu_quota_of, {"quota": 50_000}, (50_000, 100_000)),
        (nri.cpu_quota_of, {"quota": -1, "period": 100_000}, None),
        (nri.cpuset_cpus_of, {"cpus": "0-2,8"}, {0, 1, 2, 8}),
        (nri.cpuset_cpus_of, {}, None),
        (nri.cpuset_mems_of, {"mems": "0"}, {0}),
        (nri.pids_limit_of, {"pids": 9}, 9),
        (nri.pids_limit_of, {"pids": -1}, None),
        (nri.pids_limit_of, {}, None),
    ],
)
def test_a_resource_is_read_as_a_number_or_no_limit(reader, sent, expected) -> None:
    message = resources(**sent)
    assert reader(message) == expected
    container = m.Container(linux=m.LinuxContainer(resources=message))
    assert reader(container) == expected
    assert container.linux.resources == message, "reading has changed it"
