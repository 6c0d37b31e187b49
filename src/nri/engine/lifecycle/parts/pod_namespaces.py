"""The namespaces of a pod that live without a process: network, IPC, host name and users, pinned as files.

Rules: they are made on a thread that ends with them; sysctls and host name are set there, where they are the pod's own.
A thread cannot make a namespace of users, so one comes with the others from a process that lives only for that.
A pod's process namespace needs a process and is the business of `holder`; its file is pinned here all the same, so that
a path never means another process. Next: :mod:`nri.engine.lifecycle.parts.pod_files`.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from nri.engine.lifecycle.parts.mapped import IdMappings, mapped_process
from nri.engine.network import NetworkNamespaces
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import CLONE_NEWNET, MS_BIND, enter, mount, setns, unmount, unshare

__all__ = ["PodNamespaces"]

_CLONE_NEWUTS, _CLONE_NEWIPC = 0x04000000, 0x08000000
_FLAGS = {"ipc": _CLONE_NEWIPC, "uts": _CLONE_NEWUTS}


class PodNamespaces:
    """Pinned namespaces: networks by `networks`, the others in a pod's folder."""

    def __init__(self, networks: NetworkNamespaces) -> None:
        self._networks = networks

    def make(
        self,
        pod_id: str,
        folder: Path,
        kinds: set[str],
        hostname: str,
        sysctls: Mapping[str, str],
        id_mappings: IdMappings | None = None,
    ) -> dict[str, str]:
        """Make the namespaces of these kinds (network, ipc, uts); returns their paths. Raises EngineError.

        With `id_mappings`, as a spec has them, there is one of users as well, to which the others belong.
        """
        if not id_mappings:
            return self._make(pod_id, folder, kinds, hostname, sysctls, 0)
        with mapped_process(kinds, id_mappings) as pid:
            path = self.pin(folder, "user", pid)
            return {**self._make(pod_id, folder, kinds, hostname, sysctls, pid), "user": path}

    def _make(
        self, pod_id: str, folder: Path, kinds: set[str], hostname: str, sysctls: Mapping[str, str], of: int
    ) -> dict[str, str]:
        """Make new ones, or take those of the process `of`."""
        paths: dict[str, str] = {}
        if "network" in kinds:
            paths["network"] = str(self._networks.create(pod_id, of))
        own = [kind for kind in _FLAGS if kind in kinds]
        for kind in own:
            paths[kind] = str(folder / kind)
            (folder / kind).touch(0o400)

        def make_others() -> None:
            if "network" in paths:
                descriptor = os.open(paths["network"], os.O_RDONLY | os.O_CLOEXEC)
                try:
                    setns(descriptor, CLONE_NEWNET)
                finally:
                    os.close(descriptor)
            if of:
                for kind in own:
                    enter(of, kind, _FLAGS[kind])
            elif own:
                unshare(sum(_FLAGS[kind] for kind in own))
            if "uts" in own and hostname:
                socket.sethostname(hostname)
            for name, value in sysctls.items():
                _write_sysctl(name, value)
            for kind in own:
                mount(f"/proc/thread-self/ns/{kind}", Path(paths[kind]), flags=MS_BIND)

        if own or sysctls:
            _on_thread(make_others, f"namespaces of pod {pod_id}")
        return paths

    def pin(self, folder: Path, kind: str, pid: int) -> str:
        """Pin the namespace of a process; returns the path. Raises OSError."""
        path = folder / kind
        path.touch(0o400)
        mount(f"/proc/{pid}/ns/{kind}", path, flags=MS_BIND)
        return str(path)

    def remove(self, pod_id: str, folder: Path) -> None:
        """Let all namespaces of a pod go; those that are not there are no error."""
        self._networks.remove(pod_id)
        for kind in (*_FLAGS, "pid", "user"):
            path = folder / kind
            while unmount(path, lazily=True):
                pass
            path.unlink(missing_ok=True)


def _on_thread(work: Callable[[], None], what: str) -> None:
    """Do something on a thread of its own, which leaves the host's namespaces for good. Raises EngineError."""
    failed: list[OSError] = []

    def go() -> None:
        try:
            work()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=go, name="nri-engine-namespaces")
    thread.start()
    thread.join()
    if failed:
        raise EngineError(f"{what}: {failed[0]}") from failed[0]


def _write_sysctl(name: str, value: str) -> None:
    """Set a sysctl, written with dots, in which a slash is a dot of an interface's name."""
    path = "/proc/sys/" + name.translate(str.maketrans("./", "/."))
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
