"""Lists of a container as dictionaries."""

from __future__ import annotations

from nri.api import messages as m
from nri.api import readers


def test_a_containers_lists_read_as_dictionaries() -> None:
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
