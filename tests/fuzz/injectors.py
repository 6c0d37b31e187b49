"""Targets for what the injecting plugins read from annotations, and for the mounts of a host."""

from __future__ import annotations

import nri
from nri.errors import Reject
from nri.plugins.annotations import Annotation
from nri.plugins.device_injector.plugin import KINDS
from nri.plugins.rdt.plugin import FIELDS
from nri.plugins.ulimit_adjuster import plugin as ulimits
from nri.plugins.writable_cgroups.plugin import is_delegated
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_SAMPLES = (
    "- {path: /dev/a, type: c, major: 1, minor: 3, file_mode: 0660, uid: 1, gid: 2}\n- &a {path: /b, type: p}",
    "[v.com/c=d, w.com/c=e]",
    '[{"source": "/a", "destination": "/b", "type": "bind", "options": ["ro", "rbind"]}]',
    "class: IOPRIO_CLASS_BE\npriority: 3",
    "{policy: SCHED_DEADLINE, nice: -1, priority: 0, flags: [SCHED_FLAG_RECLAIM], runtime: 1, deadline: 2, period: 3}",
    "- hostIf: eth1\n  Name: net1",
    "net.core.somaxconn: 1024\nkernel.shm_rmid_forced: '1'",
    "{mode: MPOL_BIND, nodes: '0,2-3', flags: [MPOL_F_STATIC_NODES]}",
    "- type: RLIMIT_NOFILE\n  soft: 1\n  hard: 0x10",
    "gold",
    "L3:0=ff;1=ff,MB:0=50",
    "true",
)
_MOUNTS = (
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    "1 2 0:3 / / rw - overlay overlay rw\n4 5 0:6 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n",
)


def _annotation(data: bytes) -> None:
    """Every reader gets every text: what is right for one is wrong for the others."""
    annotation = Annotation("key/container.c", data.decode(errors="surrogateescape"))
    refused = 0
    readers = [kind.inject for kind in KINDS] + [put for put, _ in FIELDS.values()]
    for read in readers:
        adjustment = nri.Adjustment()
        try:
            read(annotation, adjustment)
        except Reject as refusal:
            refused += 1
            assert str(refusal).startswith("annotation key/container.c: ") and str(refusal).isprintable()
        else:
            assert not adjustment.removed()
            adjustment.message.SerializeToString()
    for limit in _limits(annotation):
        assert 0 <= limit.soft <= limit.hard
    assert refused
    assert all(line.isprintable() for line in annotation.warnings)


def _limits(matches: Annotation) -> list[ulimits.Ulimit]:
    adjustment = nri.Adjustment()
    try:
        limits = ulimits.read(matches)
        for limit in limits:
            with matches.at(""):
                adjustment.add_rlimit(*limit)
    except Reject:
        return []
    return limits


def _mounts(data: bytes) -> None:
    assert is_delegated(data.decode(errors="replace").splitlines(keepends=True)) in (True, False)


TARGETS = (
    Target("annotations", inputs.texts(_SAMPLES), _annotation, share=2),
    Target("host-mounts", inputs.texts(_MOUNTS), _mounts, share=0.5),
)
