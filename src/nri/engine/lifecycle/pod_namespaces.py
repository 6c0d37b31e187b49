"""The pinned namespaces of pods, including user namespaces.

A process with threads cannot create a user namespace. So the program unshare of util-linux creates it, and runs until
all namespaces are pinned. The pod's other namespaces belong to the user namespace.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from nri.engine.network import NetworkNamespaces
from nri.engine.support.errors import EngineError, MissingTool
from nri.engine.support.kernel import CLONE_NEWNET, MS_BIND, enter, mount, setns, unmount, unshare
from nri.engine.support.sysctls import Sysctl
from nri.errors import RequestError
from nri.files import remove_tree
from nri.service.systemd import environment_of_child
from nri.threads import run_on_new_thread

#: ``uidMappings`` and ``gidMappings`` of a spec.
IdMappings = Mapping[str, Sequence[Mapping[str, int]]]

_UNSHARE_FLAGS = {"network": "--net", "ipc": "--ipc", "uts": "--uts"}
_FILES = {"uidMappings": "uid_map", "gidMappings": "gid_map"}


@contextmanager
def mapped_process(kinds: set[str], mappings: IdMappings) -> Iterator[int]:
    """Start a process in a new user namespace with these mappings, and in new namespaces of these kinds.

    Yields the pid. The process is killed at the end of the context. Raises EngineError if that fails.
    """
    program, cat = shutil.which("unshare"), shutil.which("cat")
    if program is None or cat is None:
        raise MissingTool("unshare (util-linux), for pods with a user namespace")
    argv = [program, "--user", *(flag for kind, flag in _UNSHARE_FLAGS.items() if kind in kinds), cat]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=environment_of_child()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            # The program after unshare answers when all namespaces exist.
            with suppress(BrokenPipeError):  # it has ended, and stderr has the reason
                os.write(process.stdin.fileno(), b"\n")  # unbuffered: a buffer would be written again at the end
            if process.stdout.read(1) != b"\n":
                raise EngineError(
                    f"cannot create a user namespace: {process.stderr.read(1000).decode(errors='replace').strip()}"
                )
            for key, name in _FILES.items():
                text = "".join(f"{row['containerID']} {row['hostID']} {row['size']}\n" for row in mappings[key])
                Path(f"/proc/{process.pid}/{name}").write_text(text)
            yield process.pid
        except OSError as error:
            raise EngineError(f"cannot create a user namespace: {error}") from error
        finally:
            process.kill()


_CLONE_NEWUTS, _CLONE_NEWIPC = 0x04000000, 0x08000000
_FLAGS = {"ipc": _CLONE_NEWIPC, "uts": _CLONE_NEWUTS}
_SYSCTLS = Path("/proc/sys")
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PodNamespaces:
    """Pinned namespaces: networks by `networks`, others in a pod's folder. `sysctls` is the path of /proc/sys."""

    def __init__(self, networks: NetworkNamespaces, sysctls: Path = _SYSCTLS) -> None:
        self._networks, self._sysctls = networks, sysctls

    def make(
        self,
        pod_id: str,
        folder: Path,
        kinds: set[str],
        hostname: str,
        sysctls: Sequence[Sysctl],
        id_mappings: IdMappings | None = None,
    ) -> dict[str, str]:
        """Create namespaces of these kinds (network, ipc, uts); returns their paths. Raises EngineError, RequestError.

        With `id_mappings`, in the form of a spec, there is also a user namespace, to which the others belong.
        """
        if not id_mappings:
            return self._make_namespaces(pod_id, folder, kinds, hostname, sysctls, 0)
        with mapped_process(kinds, id_mappings) as pid:
            path = self.pin(folder, "user", pid)
            return {**self._make_namespaces(pod_id, folder, kinds, hostname, sysctls, pid), "user": path}

    def _make_namespaces(
        self, pod_id: str, folder: Path, kinds: set[str], hostname: str, sysctls: Sequence[Sysctl], of: int
    ) -> dict[str, str]:
        """Create new namespaces, or pin the namespaces of the process `of`. Returns their paths by kind."""
        paths: dict[str, str] = {}
        if "network" in kinds:
            paths["network"] = str(self._networks.create(pod_id, of))
        own_kinds = [kind for kind in _FLAGS if kind in kinds]
        for kind in own_kinds:
            paths[kind] = str(folder / kind)
            (folder / kind).touch(0o400)

        def create_others() -> None:
            if "network" in paths:
                descriptor = os.open(paths["network"], os.O_RDONLY | os.O_CLOEXEC)
                try:
                    setns(descriptor, CLONE_NEWNET)
                finally:
                    os.close(descriptor)
            if of:
                for kind in own_kinds:
                    enter(of, kind, _FLAGS[kind])
            elif own_kinds:
                unshare(sum(_FLAGS[kind] for kind in own_kinds))
            if "uts" in own_kinds and hostname:
                socket.sethostname(hostname)
            for sysctl in sysctls:
                _write_sysctl(self._sysctls, sysctl)
            for kind in own_kinds:
                mount(f"/proc/thread-self/ns/{kind}", Path(paths[kind]), flags=MS_BIND)

        if own_kinds or sysctls:
            _on_thread(create_others, f"namespaces of pod {pod_id}")
        return paths

    def pin(self, folder: Path, kind: str, pid: int) -> str:
        """Pin the namespace of a process, and return the path. Raises OSError if that fails."""
        path = folder / kind
        path.touch(0o400)
        mount(f"/proc/{pid}/ns/{kind}", path, flags=MS_BIND)
        return str(path)

    def remove(self, pod_id: str, folder: Path) -> None:
        """Remove all namespaces of a pod, as far as they exist."""
        self._networks.remove(pod_id)
        for kind in (*_FLAGS, "pid", "user"):
            path = folder / kind
            while unmount(path, lazily=True):
                pass
            remove_tree(path)


def _on_thread(work: Callable[[], None], what: str) -> None:
    """Run a function on a new thread, which may change its namespaces. Raises EngineError instead of OSError."""
    try:
        run_on_new_thread(work, "nri-engine-namespaces")
    except OSError as error:
        raise EngineError(f"{what}: {error}") from error


def _write_sysctl(root: Path, sysctl: Sysctl) -> None:
    """Set a sysctl in the namespaces of this thread. Raises RequestError with the kernel's reason if that fails.

    Each folder is opened relative to its parent, so a name cannot lead out of `root`.
    """
    *folders, file = sysctl.path
    descriptors = [os.open(root, _FOLDER)]
    try:
        for name in folders:
            descriptors.append(os.open(name, _FOLDER, dir_fd=descriptors[-1]))
        descriptors.append(os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptors[-1]))
        os.write(descriptors[-1], sysctl.value.encode())
    except OSError as error:
        reason = "the pod's namespaces have no such setting" if error.errno == errno.ENOENT else error.strerror
        raise RequestError(sysctl.field, sysctl.value, str(reason)) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
