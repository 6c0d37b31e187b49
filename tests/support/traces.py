"""What an engine that is a process of its own has put onto the machine for pods, containers and images, by now."""

from __future__ import annotations

import os
from pathlib import Path

#: Below the engine's folder, for each of its domains: what pods, containers and pulls are made of.
PLACES = (
    "state/pods", "state/bundles", "state/netns", "root/records/pods", "root/records/containers",
    "root/images/snapshots", "root/images/pulls", "root/images/images", "root/networks",
)  # fmt: skip


def traces(run_dir: Path) -> list[str]:
    """Files, leases, mounts, cgroups and interfaces of the pods of an engine with this run directory.

    The cgroup above all pods stays: it is the node's.
    """
    texts = [str(path) for place in PLACES for path in run_dir.glob(f"{place}/*")]
    for place in PLACES:
        top, _, remaining = place.partition("/")
        texts += map(str, run_dir.glob(f"{top}/domains/*/{remaining}/*"))
    texts += map(str, run_dir.glob("ipam/*/[0-9]*"))
    texts += map(str, Path("/sys/class/net", run_dir.name, "brif").glob("*"))
    texts += [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
              if run_dir.name in line.split()[4]]  # fmt: skip
    tops = [*Path("/sys/fs/cgroup").glob(run_dir.name), *Path("/sys/fs/cgroup").glob(f"*/{run_dir.name}")]
    return texts + [folder for top in tops for folder, _, _ in os.walk(top) if folder != str(top)]
