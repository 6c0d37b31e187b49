"""The removal of what no record knows: of what a machine's sudden end has left of pods and containers.

Rules: only what has an id's name in a folder of ours, and only when every record could be read: one that was set aside
may be that of what looks unowned. Next: :mod:`nri.engine.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.parts.cgroups import Cgroups
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.parts.pod_files import PodFiles
from nri.engine.process import Runtime
from nri.engine.support.errors import EngineError
from nri.engine.support.files import remove_tree
from nri.errors import NriError

__all__ = ["sweep"]


class _Stray(NamedTuple):
    """Something without a record: its kind and name, and the call that takes it away."""

    kind: str
    name: str
    take_away: Callable[[], object]


def sweep(machinery: Machinery, known: Collection[str]) -> list[str]:
    """Take away what is not of these pods and containers; returns a line for each that could not be."""
    complaints: list[str] = []
    for found in (_processes, _folders, _pods):
        for stray in found(machinery, known):
            try:
                stray.take_away()
            except (NriError, OSError) as error:
                complaints.append(f"{stray.kind} of {stray.name}, of which there is no record: {error}")
    return complaints


def _processes(machinery: Machinery, known: Collection[str]) -> Iterator[_Stray]:
    """Containers that an OCI runtime still has."""
    places = machinery.places
    for handler in machinery.config.runtimes:
        if places.runtime(handler).exists():
            runtime = machinery.runtime(handler)
            for name in _strays(_containers(runtime), known):
                take_away = partial(machinery.conmon.remove, runtime, name, places.bundle(name))
                yield _Stray("the process", name, take_away)


def _folders(machinery: Machinery, known: Collection[str]) -> Iterator[_Stray]:
    """Bundles and root file systems."""
    bundles, images = machinery.places.bundles, machinery.images
    for name in _strays((path.name for path in bundles.iterdir()), known):
        yield _Stray("the bundle", name, partial(remove_tree, bundles / name))
    for name in _strays((path.name for path in images.snapshots.root.iterdir()), known):
        yield _Stray("the root file system", name, partial(images.unmount, name))


def _pods(machinery: Machinery, known: Collection[str]) -> Iterator[_Stray]:
    """Networks, namespaces, files and cgroups of pods."""
    places = machinery.places
    for name in _strays(machinery.cni.attached(), known):
        yield _Stray("the network", name, partial(machinery.cni.delete, name))
    pods = {*machinery.network_namespaces.names(), *(path.name for path in places.pods.iterdir())}
    cgroups = Cgroups(v2=machinery.machine.cgroup_v2)
    for name in _strays(pods, known):
        yield _Stray("the namespaces", name, partial(machinery.namespaces.remove, name, places.pod(name)))
        yield _Stray("the folder", name, PodFiles(places.pod(name), pb.PodSandboxConfig(), "").remove)
        if not machinery.systemd_cgroup:
            yield _Stray("the cgroup", name, partial(cgroups.remove, machinery.pod_cgroup(name)))


def _strays(names: Iterable[str], known: Collection[str]) -> list[str]:
    """The names that belong to no id; images that a container mounts have its id and a number. Pure."""
    return sorted(name for name in names if name.partition("-image")[0] not in known)


def _containers(runtime: Runtime) -> Collection[str]:
    try:
        return runtime.containers()
    except EngineError:
        return ()  # it is not installed any more: nothing of it runs
