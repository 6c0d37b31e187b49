"""The images of plugins and agent, built from this tree by deploy/*Containerfile, for nodes without a registry."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster.machine import RUNTIMES, Cluster
from tests.deploy.buildah import build_agent, build_bundled, buildah_with_base
from tools.nodes.machine import ROOT
from tools.runtimes import install
from tools.runtimes.machine import cache_dir, cache_lock

#: The names that the manifests in deploy/ have, and what builds each image.
BUILDERS = {"localhost/nri-plugins:0.1.0.dev0": build_bundled, "localhost/nri-agent:0.1.0.dev0": build_agent}
_SOURCES = (
    *("src", "deploy/Containerfile", "deploy/agent.Containerfile", "requirements", "pyproject.toml"),
    "tests/deploy/base.py",
)
_LOAD_TIMEOUT_S = 600.0


def archives() -> dict[str, Path]:
    """An OCI archive of each image, by the name of the image: built when a file of the images has changed."""
    folder = cache_dir() / f"cluster-images-{_digest()}"
    paths = {name: folder / f"{name.rpartition('/')[2].partition(':')[0]}.tar" for name in BUILDERS}
    with cache_lock("cluster-images"):
        if not folder.exists():
            for old in cache_dir().glob("cluster-images-*"):
                shutil.rmtree(old, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch, buildah_with_base() as tool:
                content = Path(scratch, "content")
                content.mkdir()
                for name, build in BUILDERS.items():
                    wheels = Path(scratch, paths[name].stem)
                    wheels.mkdir()
                    build(tool, name, wheels)
                    tool("push", "--quiet", name, f"oci-archive:{content / paths[name].name}:{name}")
                content.rename(folder)
    return paths


def _digest() -> str:
    """A digest of the files that the images are built from."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        files = sorted(path for path in (ROOT / source).rglob("*") if path.is_file()) or [ROOT / source]
        for path in files:
            if "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def load(cluster: Cluster) -> None:
    """Load the images into the nodes, if they do not have them."""
    for name, path in archives().items():
        load_archive(cluster, name, path)


def load_archive(cluster: Cluster, name: str, path: Path) -> None:
    """Load an OCI archive of an image into all nodes that do not have it."""
    with ThreadPoolExecutor(len(RUNTIMES)) as pool:
        list(pool.map(lambda node: _load(cluster, node, name, path), range(1, len(RUNTIMES) + 1)))


def _load(cluster: Cluster, node: int, name: str, path: Path) -> None:
    folder = cluster.folder / f"n{node}/images"
    folder.mkdir(exist_ok=True)
    archive = folder / f"{path.parent.name}-{path.name}"
    if archive.exists():
        return
    # In the folder of the node's state: the node may hold outdated entries of other folders.
    new = archive.with_suffix(".new")
    new.unlink(missing_ok=True)
    try:
        os.link(path, new)
    except OSError:  # another file system
        shutil.copy(path, new)
    if RUNTIMES[node - 1] == "engine":
        command = f"{sys.executable} -m nri engine load oci-archive:/mnt/images/{new.name}:{name} {name}"
    else:
        command = f"{install('2.4', print).bin}/ctr -n k8s.io images import --local /mnt/images/{new.name}"
    cluster.run(node, command, _LOAD_TIMEOUT_S)
    new.rename(archive)
