"""The bundle of a container: a folder, with a small file system in memory for the exit code.

conmon writes the exit code when the container ends. On a full disk it could not, and the container would count as
killed. Next: :mod:`nri.engine.lifecycle.holder`.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from nri.engine.process import PERSIST
from nri.engine.support.kernel import mount, unmount
from nri.files import private_folder, remove_tree

__all__ = ["make_bundle", "remove_bundle"]

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
#: Enough for the files of conmon: two with the exit code, each under another name first, and a mark of an OOM kill.
_OPTIONS = "mode=700,size=64k,nr_inodes=32"
_log = logging.getLogger(__name__)


def make_bundle(bundle: Path, *, dry: bool = False) -> None:
    """Make the folder; a machine that refuses the mount keeps the exit code on the disk. Raises OSError."""
    persist = private_folder(private_folder(bundle) / PERSIST)
    if dry:
        return
    try:
        mount("exits", persist, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, _OPTIONS)
    except OSError as error:
        _log.warning("%s stays on the disk, and no exit code can be kept when that is full: %s", persist, error)


def remove_bundle(bundle: Path) -> None:
    """Remove the folder; one that is missing is not an error. Raises OSError."""
    persist = bundle / PERSIST
    while os.path.ismount(persist) and unmount(persist, lazily=True):
        pass
    remove_tree(bundle)
