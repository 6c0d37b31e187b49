"""The files that all containers of a pod share: hosts, hostname, resolv.conf, and shared memory.

Rules: a pod on the node's network gets the node's own files, copied; one that asks for DNS servers gets those. Shared
memory is a file system of the pod's own, unless it shares the node's. Next: :mod:`nri.engine.lifecycle.holder`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.namespaces import id_mappings
from nri.engine.support.kernel import is_mount_point, mount, unmount
from nri.files import remove_tree

__all__ = ["PodFiles", "hosts_text", "resolv_text"]

_SHM_BYTES = 64 << 20
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_NODES = {"/etc/hosts": "hosts", "/etc/hostname": "hostname", "/etc/resolv.conf": "resolv.conf"}
_SHM = "/dev/shm"  # noqa: S108  where every container has it


class PodFiles:
    """The files in the folder of one pod. `dry`: without shared memory, which is mounted."""

    def __init__(self, folder: Path, config: pb.PodSandboxConfig, hostname: str, *, dry: bool = False) -> None:
        self._folder, self._config, self._hostname, self._dry = folder, config, hostname, dry
        self._options = config.linux.security_context.namespace_options
        mapped = id_mappings(self._options)
        #: The pod's root, by its ids on the node.
        self._owner = (mapped["uidMappings"][0]["hostID"], mapped["gidMappings"][0]["hostID"]) if mapped else (-1, -1)

    def make(self, ips: Sequence[str]) -> None:
        """Write the files, with the pod's addresses, and mount its shared memory. Raises OSError."""
        on_node = self._options.network == pb.NODE
        texts = {
            "hosts": _read("/etc/hosts") if on_node else hosts_text(self._hostname, ips),
            "hostname": f"{self._hostname}\n",
            "resolv.conf": resolv_text(self._config.dns_config) or _read("/etc/resolv.conf"),
        }
        for name, text in texts.items():
            path = self._folder / name
            path.write_bytes(text.encode(errors="surrogateescape"))  # the node's may be in another encoding
            path.chmod(0o644)
            os.chown(path, *self._owner)
        shm = self._folder / "shm"
        if self._options.ipc != pb.NODE and not self._dry and not is_mount_point(shm):
            shm.mkdir(exist_ok=True)
            flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            uid, gid = (max(each, 0) for each in self._owner)
            mount("shm", shm, "tmpfs", flags, f"mode=1777,size={_SHM_BYTES},uid={uid},gid={gid}")

    def mounts(self) -> dict[str, str]:
        """Path in the container -> path on the host."""
        made = {inside: str(self._folder / name) for inside, name in _NODES.items()}
        made[_SHM] = _SHM if self._options.ipc == pb.NODE else str(self._folder / "shm")
        return made

    def release(self) -> None:
        """Let the shared memory go. Raises OSError."""
        while not self._dry and unmount(self._folder / "shm", lazily=True):
            pass

    def remove(self) -> None:
        """Take the folder away. Raises OSError; with something still mounted in it nothing is deleted."""
        self.release()
        remove_tree(self._folder)


def hosts_text(hostname: str, ips: Sequence[str]) -> str:
    """The /etc/hosts of a pod with a network of its own. Pure."""
    rows = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    if hostname:
        rows += [f"{ip}\t{hostname}" for ip in ips]
    return "\n".join(rows) + "\n"


def resolv_text(dns: pb.DNSConfig) -> str:
    """The /etc/resolv.conf of a pod that says what it wants; "" for one that does not. Pure."""
    rows = [f"nameserver {server}" for server in dns.servers]
    if dns.searches:
        rows.insert(0, f"search {' '.join(dns.searches)}")
    if dns.options:
        rows.append(f"options {' '.join(dns.options)}")
    return "\n".join(rows) + "\n" if rows else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="surrogateescape")
    except OSError:
        return ""  # a node without one
