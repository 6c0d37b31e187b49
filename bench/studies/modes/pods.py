"""The pods of the comparison, and the cgroup values that their container must have.

Batch (BE) and latency-sensitive (LS) pods alternate. Each value differs from what kubelet and runtime set without an
agent, so that a container without policy is visible. The first action of the container's process is to write down the
present values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench.studies.cluster import Json
from tests.kubernetes.kubelet import LOGS, NODE
from tests.kubernetes.pods import container, pod

#: The files that are looked at: name -> hierarchy.
FILES = {"cpu.shares": "cpu", "cpu.cfs_quota_us": "cpu", "memory.limit_in_bytes": "memory"}
#: How much faster this node's CPUs are said to be; quotas become smaller by it.
RATIO = 1.25
_MILLI_CPU, _MEMORY = 1000, 256 << 20
#: Values that must be in force in a container, by kind.
WANTED: Mapping[str, Mapping[str, str]] = {
    "BE": {"cpu.shares": "1024", "cpu.cfs_quota_us": "80000", "memory.limit_in_bytes": str(_MEMORY)},
    "LS": {"cpu.cfs_quota_us": "80000"},
}
#: A builtin of the shell each, so that nothing is started before all is written down.
SCRIPT = """
t=$EPOCHREALTIME
read -r s </sys/fs/cgroup/cpu/cpu.shares
read -r q </sys/fs/cgroup/cpu/cpu.cfs_quota_us
read -r m </sys/fs/cgroup/memory/memory.limit_in_bytes
echo "first $t $s $q $m"
exec sleep 2147483647
"""
_LINE = re.compile(r"first (\d+)\.(\d{6}) (-?\d+) (-?\d+) (-?\d+)")


class First(NamedTuple):
    """What a process found at its first instruction, and when (nanoseconds since 1970)."""

    ns: int
    values: Mapping[str, str]

    def right(self, kind: str) -> bool:
        """Whether all was in force."""
        return all(self.values[name] == value for name, value in WANTED[kind].items())


def kind_of(number: int) -> str:
    """The kind of a pod."""
    return "LS" if number % 2 else "BE"


def manifest(number: int) -> Json:
    """The manifest of a pod with this number."""
    kind = kind_of(number)
    requests = {"kubernetes.io/batch-cpu": _MILLI_CPU, "kubernetes.io/batch-memory": _MEMORY}
    spec = {"containers": {"main": {"requests": requests, "limits": requests}}}
    annotations = {"node.koordinator.sh/extended-resource-spec": json.dumps(spec)} if kind == "BE" else {}
    resources = {"requests": {"cpu": "5m"}, "limits": {"cpu": "1"}} if kind == "LS" else {}
    manifest_ = pod(f"{kind.lower()}{number}", container(script=SCRIPT, resources=resources), annotations=annotations)
    manifest_["metadata"]["labels"] |= {"koordinator.sh/qosClass": kind}
    manifest_["spec"] |= {"nodeName": NODE, "terminationGracePeriodSeconds": 0}
    return manifest_


def parse(text: str) -> First | None:
    """What a container's log says; None before it says anything."""
    match = _LINE.search(text)
    if match is None:
        return None
    seconds, micros, *values = match.groups()
    return First(int(seconds) * 10**9 + int(micros) * 1000, dict(zip(FILES, values, strict=True)))


def first(kubelet: Path, manifest_of: Json, uid: str) -> First | None:
    """What the process of a pod wrote down, from its log in kubelet's folder."""
    folder = kubelet / LOGS / f"default_{manifest_of['metadata']['name']}_{uid}" / "main"
    try:
        return parse((folder / "0.log").read_text(errors="replace"))
    except FileNotFoundError:
        return None
