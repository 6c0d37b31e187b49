"""The folders of an engine, and the bundles of containers. All are accessible to root only."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from nri.engine.process import PERSIST
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import mount, unmount
from nri.files import private_folder, remove_tree

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
#: Enough for conmon's files: two files with the exit code, each with a temporary file, and the mark of an OOM kill.
_EXITS_OPTIONS = "mode=700,size=64k,nr_inodes=32"
_log = logging.getLogger(__name__)


def lock_folders(root: Path, state: Path) -> ExitStack:
    """Create and lock both folders of an engine for this process, until the result is closed.

    The folders themselves are locked, so there is no lock file. Raises EngineError if another engine has locked one of
    the folders, or if one cannot be created.
    """
    with ExitStack() as locks:
        for folder in dict.fromkeys((root, state)):
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EngineError(
                    f"another engine uses {folder}. Stop it, or configure another folder for this one"
                ) from None
            except OSError as error:
                raise EngineError(f"the engine's folder {folder} cannot be created and locked: {error}") from error
        return locks.pop_all()


class Places:
    """The paths below an engine's two folders, `root` and `state`, which are created.

    Data below `root` must survive a reboot, data below `state` need not. The constructor raises EngineError if a folder
    cannot be created.

    Attributes:
        outermost: the folders of the main engine, if this is a further domain; otherwise `root` and `state`.
    """

    def __init__(self, root: Path, state: Path, outermost: Sequence[Path] = ()) -> None:
        self.outermost = outermost or (root, state)
        try:
            self.root = private_folder(root)
            self.state = private_folder(state)
            self.bundles = private_folder(state / "bundles")
            self.pods = private_folder(state / "pods")
            self._runtimes = private_folder(state / "runtimes")
        except OSError as error:
            raise EngineError(f"the engine's folders cannot be created: {error}") from error
        self.records, self.images, self.networks = root / "records", root / "images", root / "networks"
        self.namespaces = state / "netns"

    def bundle(self, identity: str) -> Path:
        """Return the bundle of a container or of a pause process."""
        return self.bundles / identity

    def pod(self, identity: str) -> Path:
        """Return the folder of a pod, which has its files, namespaces and shared memory."""
        return self.pods / identity

    def runtime(self, handler: str) -> Path:
        """Return the folder in which an OCI runtime keeps its state."""
        return self._runtimes / handler


def make_bundle(bundle: Path, *, dry: bool = False) -> None:
    """Create the bundle of a container, with a small file system in memory for the exit code.

    conmon writes the exit code when the container ends. On a full disk this would fail, and the engine would report the
    container as killed. If the file system cannot be mounted, the exit code is written to the disk. Raises OSError if
    the folder cannot be created.
    """
    persist = private_folder(private_folder(bundle) / PERSIST)
    if dry:
        return
    try:
        mount("exits", persist, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, _EXITS_OPTIONS)
    except OSError as error:
        _log.warning("%s stays on the disk; exit codes are lost when the disk is full: %s", persist, error)


def remove_bundle(bundle: Path) -> None:
    """Remove a bundle. No effect if it does not exist. Raises OSError if that fails."""
    persist = bundle / PERSIST
    while os.path.ismount(persist) and unmount(persist, lazily=True):
        pass
    remove_tree(bundle)
