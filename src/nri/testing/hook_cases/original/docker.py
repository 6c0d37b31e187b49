"""The words of Docker's API for the hook protocol's: what a proxy in front of dockerd converts.

Keys of configurations are Docker's ("CpuShares", "CpusetCpus"). Next: `nri.testing.hook_cases.compare`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from nri.policies.koordinator.paths import SYSTEMD

__all__ = [
    "container_id_of_url",
    "cri_path",
    "env_list",
    "env_map",
    "expected_parent",
    "host_config_after",
    "labels_and_annotations",
    "resources_after_update",
    "resources_of",
    "update_config_after",
]

_FIELDS = {
    "CpuPeriod": "cpu_period",
    "CpuQuota": "cpu_quota",
    "CpuShares": "cpu_shares",
    "Memory": "memory_limit_in_bytes",
    "CpusetCpus": "cpuset_cpus",
    "CpusetMems": "cpuset_mems",
    "MemorySwap": "memory_swap_limit_in_bytes",
}
_ANNOTATION = "annotation."

Fields = Mapping[str, Any]


def resources_of(config: Fields | None) -> dict[str, Any] | None:
    """Return the resources of a HostConfig."""
    if config is None:
        return None
    fields = _FIELDS | {"OomScoreAdj": "oom_score_adj"}
    return {theirs: config[ours] for ours, theirs in fields.items() if config.get(ours)}


def host_config_after(config: Fields | None, resources: Fields | None) -> dict[str, Any] | None:
    """Return a HostConfig with resources in it; all of them, also those that are not set."""
    return _with(config, resources, _FIELDS | {"OomScoreAdj": "oom_score_adj"})


def update_config_after(config: Fields | None, resources: Fields | None) -> dict[str, Any] | None:
    """Return an UpdateConfig with resources in it; Docker cannot update an oom score."""
    return _with(config, resources, _FIELDS)


def resources_after_update(resources: Fields | None, config: Fields | None) -> dict[str, Any] | None:
    """Return stored resources after an UpdateConfig; a negative quota does not count."""
    if resources is None or config is None:
        return None if resources is None else dict(resources)
    values = {theirs: config[ours] for ours, theirs in _FIELDS.items() if config.get(ours)}
    return {**resources, **{name: value for name, value in values.items() if isinstance(value, str) or value > 0}}


def container_id_of_url(path: str) -> str:
    """Return the container's id in `/1.3/containers/ID/start`. Raises ValueError for a path without one."""
    parts = path.split("/")
    if len(parts) < 2:
        raise ValueError(f"{path!r} names no container")
    return parts[-2]


def cri_path(driver: str, parent: str) -> str:
    """Return a pod's folder as the CRI has it: the slices that systemd's nested name stands for."""
    if driver != SYSTEMD:
        return parent
    names = parent.split("-")
    slices = ["-".join(names[: count + 1]) + ".slice" for count in range(len(names) - 1)]
    return posixpath.normpath("/".join(("", *slices, parent)))


def expected_parent(driver: str, parent: str) -> str:
    """Return a pod's folder as Docker wants it: the last slice alone under systemd."""
    return posixpath.basename(parent.rstrip("/")) if parent and driver == SYSTEMD else parent


def labels_and_annotations(entries: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels, and the annotations that the kubelet's shim hid among them."""
    annotations = {
        key.removeprefix(_ANNOTATION): value for key, value in entries.items() if key.startswith(_ANNOTATION)
    }
    return {key: value for key, value in entries.items() if not key.startswith(_ANNOTATION)}, annotations


def env_map(entries: Iterable[str]) -> dict[str, str]:
    """Return an environment as a map; an entry without `=` is left out."""
    return {name: value for name, mark, value in (entry.partition("=") for entry in entries) if mark}


def env_list(env: Mapping[str, str]) -> list[str]:
    """Return an environment as a list, sorted by name."""
    return [f"{name}={value}" for name, value in sorted(env.items())]


def _with(config: Fields | None, resources: Fields | None, fields: Mapping[str, str]) -> dict[str, Any] | None:
    if config is None or resources is None:
        return None if config is None else dict(config)
    empty = {name: "" if name.startswith("Cpuset") else 0 for name in fields}
    return {**config, **{ours: resources.get(theirs, empty[ours]) for ours, theirs in fields.items()}}
