"""An image on this node, and its files /etc/passwd and /etc/group.

Only regular files below the image's root are read. So an image cannot make the engine read the node's files, or block
it with a pipe.
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
#: The errors of a path that does not exist in the image, or leads out of it.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Image:
    """An image on this node.

    Attributes:
        id: the digest of the image's configuration.
        config: the section ``config`` of the image's configuration, which containers inherit.
        layers: the number of layers, or None in records of earlier versions.
        chain_ids: the layers that this image shares with other images, the lowest first. None means that the image was
            unpacked into its own folder, because overlayfs did not work or by an earlier version.
    """

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    inodes: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    pulled_at_ns: int = 0
    layers: int | None = None
    chain_ids: tuple[str, ...] | None = None

    @property
    def user(self) -> str:
        """The user of the container's process, as in the configuration: ``USER`` or ``USER:GROUP``, names or IDs."""
        return str(self.config.get("User") or "")

    @property
    def entrypoint(self) -> list[str]:
        """The program, and the arguments that precede `cmd`."""
        return list(self.config.get("Entrypoint") or ())

    @property
    def cmd(self) -> list[str]:
        """The default arguments, which a container may replace."""
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
        """The signal that asks the container's process to end."""
        return str(self.config.get("StopSignal") or "")

    @property
    def volumes(self) -> list[str]:
        """The paths where a container expects a writable folder. They are not normalized."""
        return list(self.config.get("Volumes") or ())

    @property
    def labels(self) -> dict[str, str]:
        """The image's labels."""
        return dict(self.config.get("Labels") or {})

    def reported_name(self, *requested: str) -> str:
        """Return the image's name for a container's status.

        This is the first of the `requested` names that the image has, otherwise its first tag or digest, because
        kubelets request an image by its id.
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
    """Return the content of an image's /etc/passwd or /etc/group, or "" if it does not exist or is a folder.

    Raises InvalidRequest if it is a pipe or device, or too long. A part of a long file would define other users.
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
