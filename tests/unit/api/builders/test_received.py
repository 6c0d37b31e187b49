"""All resources of a received message, by the names of the setters."""

from __future__ import annotations

import nri
from nri.api import messages as m
from tests.support.received import resources


def test_all_resources_read_as_they_were_sent() -> None:
    message = resources(limit=0, shares=512, cpus="0-3")
    message.unified["memory.high"] = "1"
    for sent in (message, m.Container(linux=m.LinuxContainer(resources=message))):
        read = nri.resources_of(sent)
        assert (read.memory_limit, read.cpu_shares, read.cpu_quota, read.pids_limit) == (0, 512, None, None)
        assert (read.cpuset_cpus, read.unified, read.hugepage_limits) == ("0-3", {"memory.high": "1"}, {})
        assert repr(read).startswith("ReceivedResources(memory.limit=0, cpu.shares=512, ")
    assert not nri.resources_of(m.Container()).has_resources
