"""buildah with a separate store: builds and runs images without a registry and a container runtime."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.base import lay_out
from tests.support.commands import run
from tests.support.needs import need_root, need_tool

ROOT = Path(__file__).resolve().parents[2]


class Buildah:
    """buildah with its own store, without a container runtime or user namespaces."""

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
def buildah_with_base() -> Iterator[Buildah]:
    """buildah, with ``localhost/nri-base`` in its store, which stands for an image with Python."""
    need_root()
    need_tool("buildah")
    with tempfile.TemporaryDirectory(prefix="nri-buildah-", dir="/tmp") as folder:
        tool = Buildah(Path(folder))
        base = Path(folder, "base")
        lay_out(base)
        name = tool("from", "scratch").splitlines()[-1]
        tool("copy", "--quiet", name, base, "/")
        tool("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", name)
        tool("commit", "--quiet", name, "nri-base")
        yield tool


def build_bundled(tool: Buildah, image: str, wheels: Path) -> None:
    """Build the image of all bundled plugins of the tree, without a network; `wheels` gets what it is built of."""
    _build(tool, image, wheels, "plugins", ROOT / "deploy/Containerfile")


def build_agent(tool: Buildah, image: str, wheels: Path) -> None:
    """Build the image of the node agent, as `build_bundled` does that of plugins."""
    _build(tool, image, wheels, "agent", ROOT / "deploy/agent.Containerfile")


def _build(tool: Buildah, image: str, wheels: Path, requirements: str, containerfile: Path) -> None:
    for name in (requirements, "build"):
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        run([*words, "--require-hashes", "--dest", wheels, "-r", ROOT / f"requirements/{name}.txt"])
    options = ["--isolation", "chroot", "--build-arg", "BASE=localhost/nri-base", "--volume", f"{wheels}:/wheels:ro"]
    options += ["--build-arg", "PIP_NO_INDEX=1", "--build-arg", "PIP_FIND_LINKS=/wheels"]
    tool("build", "--quiet", *options, "--tag", image, "--file", containerfile, ROOT)


@contextlib.contextmanager
def container(buildah: Buildah, image: str) -> Iterator[str]:
    """A container of an image, for `buildah run` and `buildah mount`."""
    name = buildah("from", "--pull-never", image).splitlines()[-1]
    try:
        yield name
    finally:
        buildah("rm", name)
