"""An image on this node, and its account files.

Only regular files below the image's root are read, so an image cannot show the node's files, or stop the engine with a
pipe.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nri.engine.images.reference import parse_reference
from nri.engine.support.errors import InvalidRequest
from nri.host.root import open_below

_MAX_ACCOUNT_FILE_BYTES = 4 << 20
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Image:
    """An image on this node. `config` is the part of its configuration that containers inherit.

    Attributes:
        layers: the number of its layers; None if it is not recorded.
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
        """The user of its process, as written: ``name``, ``uid``, or either with a group."""
        return str(self.config.get("User") or "")

    @property
    def entrypoint(self) -> list[str]:
        """The first part of its command line."""
        return list(self.config.get("Entrypoint") or ())

    @property
    def cmd(self) -> list[str]:
        """The second part of its command line, which containers may replace."""
        return list(self.config.get("Cmd") or ())

    @property
    def env(self) -> list[str]:
        """The environment variables, as ``KEY=value``."""
        return list(self.config.get("Env") or ())

    @property
    def working_dir(self) -> str:
        """The working directory."""
        return str(self.config.get("WorkingDir") or "")

    @property
    def stop_signal(self) -> str:
        """The signal that asks its process to end."""
        return str(self.config.get("StopSignal") or "")

    @property
    def volumes(self) -> list[str]:
        """The paths for which a container expects a writable folder, in any form."""
        return list(self.config.get("Volumes") or ())

    @property
    def labels(self) -> dict[str, str]:
        """The image's labels."""
        return dict(self.config.get("Labels") or {})

    def reported_name(self, *requested: str) -> str:
        """The name for statuses of containers: a requested name that the image has, else its first tag or digest.

        Kubelets request an image by its id.
        """
        names = [*self.repo_tags, *self.repo_digests]
        for text in requested:
            with suppress(InvalidRequest):
                reference = parse_reference(text)
                for name in (f"{reference.repository}:{reference.tag}", reference.pullable):
                    if name in names:
                        return name
        return names[0] if names else self.id


def account_file(rootfs: Path, path: str) -> str:
    """The text of an image's /etc/passwd or /etc/group; "" if there is none, or not a regular file.

    InvalidRequest for a pipe or device, and for a file that is too long: half of it would define other users.
    """
    try:
        descriptor = open_below(rootfs, path, os.O_PATH)
    except OSError as error:
        if error.errno in _ABSENT:
            return ""
        raise
    try:
        status = os.fstat(descriptor)
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
            raise InvalidRequest(f"the image's /{path} is a pipe or device, which would block the OCI runtime")
        if not stat.S_ISREG(status.st_mode):
            return ""
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            data = file.read(_MAX_ACCOUNT_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _MAX_ACCOUNT_FILE_BYTES:
        raise InvalidRequest(f"the image's /{path} exceeds {_MAX_ACCOUNT_FILE_BYTES} bytes")
    return data.decode(errors="replace")
