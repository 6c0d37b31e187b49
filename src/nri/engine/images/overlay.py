"""Mount overlayfs over the folders that contain an image's files."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import mount, unmount

#: The kernel copies the options of a mount into one page, with a zero byte at the end.
_MAX_OPTIONS_BYTES = 4095
#: The maximum number of layers in one mount. Their shortest names still fit into the page; the kernel's limit is 500.
MAX_LAYERS = 128


class Stack(NamedTuple):
    """The folders with an image's files, as `names` below the folder `root`, the lowest layer first."""

    root: Path
    names: Sequence[str]

    def at(self, root: Path) -> Stack:
        """Return the same folders below another root, where they are mounted with mapped owners."""
        return Stack(root, self.names)

    @property
    def top(self) -> Path:
        """The folder of the highest layer. The image's root folder has its owner and mode."""
        return self.root / self.names[-1]

    @contextmanager
    def merged(self, folder: Path) -> Iterator[Path]:
        """Merge the layers into one folder inside the block. `folder` is where a temporary mount point is created.

        Raises EngineError if overlayfs is required and does not work.
        """
        if len(self.names) == 1:
            yield self.top
            return
        with tempfile.TemporaryDirectory(prefix=".view-", dir=folder) as point:
            target = Path(point)
            try:
                mount_overlay(target, self)
            except OSError as error:
                raise EngineError(
                    f"the layers of the image cannot be merged, because overlayfs does not work: {error.strerror}. "
                    "Remove the image and pull it again"
                ) from error
            try:
                yield target
            finally:
                unmount(target, lazily=True)


def mount_overlay(
    target: Path, stack: Stack, upper: Path | None = None, work: Path | None = None, *, volatile: bool = False
) -> None:
    """Mount the layers at `target`, read-only without `upper`. Raises OSError if that fails.

    With `volatile`, the end of the mount does not wait until all files are on the disk, if the kernel supports that.
    """
    writable = f",upperdir={upper},workdir={work}" if upper is not None else ""
    paths = [str(stack.root / name) for name in reversed(stack.names)]
    with ExitStack() as open_folders:
        options = f"lowerdir={':'.join(paths)}{writable}"
        if len(os.fsencode(options)) + len(",volatile") > _MAX_OPTIONS_BYTES:
            descriptors = [_open_folder(path, open_folders) for path in paths]
            options = f"lowerdir={':'.join(f'/proc/self/fd/{number}' for number in descriptors)}{writable}"
        if volatile:
            try:
                mount("overlay", target, "overlay", data=f"{options},volatile")
                return
            except OSError as error:
                if error.errno != errno.EINVAL:  # EINVAL: a kernel before 5.10
                    raise
        mount("overlay", target, "overlay", data=options)


def _open_folder(path: str, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def copy_attributes(lower: Path, upper: Path) -> None:
    """Copy the owner, mode, times and extended attributes of a folder to the folder that overlayfs shows instead."""
    owner = lower.stat()
    os.chown(upper, owner.st_uid, owner.st_gid)
    shutil.copystat(lower, upper)
    with suppress(OSError):  # a file system without extended attributes
        for name in os.listxattr(upper):
            if name.startswith("trusted.overlay."):  # marks of overlayfs itself
                os.removexattr(upper, name)


def overlay_works(folder: Path) -> bool:
    """Return whether overlayfs can be mounted with its upper folder in `folder`. A test mount is made and removed."""
    with tempfile.TemporaryDirectory(prefix=".try-", dir=folder) as test_folder:
        top = Path(test_folder)
        for name in ("lower", "upper", "work", "merged"):
            (top / name).mkdir()
        try:
            mount_overlay(top / "merged", Stack(top, ["lower"]), top / "upper", top / "work")
        except OSError:
            return False
        unmount(top / "merged")
        return True
