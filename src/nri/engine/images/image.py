"""One image on this node, as the store gives it out.

Its files are opened below its root file system, and regular ones only, so no link shows us the node's, and no
device or pipe of an image is touched.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nri.engine.support.errors import InvalidRequest
from nri.host.root import open_below

_LIMIT_BYTES = 4 << 20
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Image:
    """An image on this node. `config` is the part of its configuration that containers take over.

    Attributes:
        layers: how many it has; None where nobody wrote that down.
    """

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    inodes: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    pulled_at_ns: int = 0
    layers: int | None = None

    @property
    def user(self) -> str:
        """The user that it runs as, as written: ``name``, ``uid`` or with a group."""
        return str(self.config.get("User") or "")

    @property
    def entrypoint(self) -> list[str]:
        """The first words of its command line."""
        return list(self.config.get("Entrypoint") or ())

    @property
    def cmd(self) -> list[str]:
        """The rest of its command line, unless a container has its own."""
        return list(self.config.get("Cmd") or ())

    @property
    def env(self) -> list[str]:
        """Its environment, as ``KEY=value``."""
        return list(self.config.get("Env") or ())

    @property
    def working_dir(self) -> str:
        """The folder that it starts in."""
        return str(self.config.get("WorkingDir") or "")

    @property
    def stop_signal(self) -> str:
        """The signal that asks it to end."""
        return str(self.config.get("StopSignal") or "")

    @property
    def labels(self) -> dict[str, str]:
        """The labels that its maker gave it."""
        return dict(self.config.get("Labels") or {})


def account_file(rootfs: Path, path: str) -> str:
    """The text of an image's /etc/passwd or /etc/group; "" if there is none, or something else in its place.

    Raises InvalidRequest for one that is too long, half of which would show a user that is not there, or never ends.
    """
    try:
        found = open_below(rootfs, path, os.O_PATH)
    except OSError as error:
        if error.errno in _ABSENT:
            return ""
        raise
    try:
        status = os.fstat(found)
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
            raise InvalidRequest(f"the image's /{path} is a pipe or device, on which the OCI runtime would wait")
        if not stat.S_ISREG(status.st_mode):
            return ""
        with open(f"/proc/self/fd/{found}", "rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
    finally:
        os.close(found)
    if len(data) > _LIMIT_BYTES:
        raise InvalidRequest(f"the image's /{path} is longer than {_LIMIT_BYTES} bytes")
    return data.decode(errors="replace")
