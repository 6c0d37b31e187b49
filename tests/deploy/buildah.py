"""buildah with a store of its own: images are built and run without a registry and without a container runtime.

Next: `test_image` and `test_bundled_image`; the fixture `buildah` is in conftest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.commands import run


class Buildah:
    """buildah with a store of its own, without a container runtime or user namespaces."""

    def __init__(self, folder: Path) -> None:
        self.argv = [
            "buildah",
            "--root",
            str(folder / "store"),
            "--runroot",
            str(folder / "run"),
            "--storage-driver",
            "vfs",
        ]

    def __call__(self, *arguments: str | Path) -> str:
        return run([*self.argv, *arguments]).strip()


@contextlib.contextmanager
def container(buildah: Buildah, image: str) -> Iterator[str]:
    made = buildah("from", "--pull-never", image).splitlines()[-1]
    try:
        yield made
    finally:
        buildah("rm", made)
