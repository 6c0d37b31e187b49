"""The two pods of the agent's tests, a batch and a latency-sensitive one, and the containerd in which they run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.agent.files import UNIFIED, record
from tests.support.needs import need, need_machine, need_root
from tools.runtimes import Containerd, MissingError, install
from tools.runtimes.cgroups import CGROUPS
from tools.runtimes.leftovers import sweep
from tools.runtimes.machine import ensure_packages

_ASKED = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
EXTENDED: Final = "node.koordinator.sh/extended-resource-spec"
#: Half a CPU and 64 MiB for the container `app`, as Koordinator's webhook writes it.
SPEC: Final = {EXTENDED: json.dumps({"containers": {"app": {"requests": _ASKED, "limits": _ASKED}}})}
BE: Final = {"koordinator.sh/qosClass": "BE"}
LS: Final = {"koordinator.sh/qosClass": "LS"}
BATCH: Final[dict[str, Any]] = {"labels": BE, "annotations": SPEC}
#: The same, with an OOM score.
SCORED: Final[dict[str, Any]] = {"labels": BE, "annotations": {**SPEC, "koordinator.sh/oom-score-adj": "555"}}
SENSITIVE: Final[dict[str, Any]] = {"labels": LS}
#: The first thing that a container's process does is to write down what holds for it.
COMMAND: Final = record("cat /proc/self/oom_score_adj", "grep Cpus_allowed_list /proc/self/status")


def need_controllers() -> None:
    """Go on only where the controllers of the values that are looked at are on cgroup v1, or all on v2."""
    unified = UNIFIED and {"cpu", "cpuset", "memory"} <= set((CGROUPS / "cgroup.controllers").read_text().split())
    need_machine(unified or (CGROUPS / "cpu").is_dir(), "cgroup v1, nor v2 with cpu, cpuset and memory")


@contextmanager
def containerd(version: str = "2.4", **more: Any) -> Iterator[Containerd]:
    """A containerd of a test module's own; skips, or fails where it must run, if this machine cannot have one."""
    need_root()
    need_controllers()
    try:
        ensure_packages(print)
        sweep()
        installed = install(version, print)
    except MissingError as error:
        need(False, str(error))
        raise
    with Containerd(installed, **more) as created:
        yield created
