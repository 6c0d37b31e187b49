"""The scaffold's Containerfile, built with buildah on a base made here, and the image beside the reference runtime."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.base import lay_out
from tests.peers.drivers import GoRuntime
from tests.support.commands import run
from tests.support.needs import need_root, need_tool

IMAGE = "localhost/pod-name:0.1.0"

pytestmark = pytest.mark.timeout(400)


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


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    need_root()
    need_tool("buildah")
    with tempfile.TemporaryDirectory(prefix="nri-buildah-", dir="/tmp") as folder:
        tool = Buildah(Path(folder))
        base = Path(folder, "base")
        lay_out(base)
        container = tool("from", "scratch").splitlines()[-1]
        tool("copy", "--quiet", container, base, "/")
        tool("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        tool("commit", "--quiet", container, "nri-base")
        yield tool


@pytest.fixture(scope="module")
def image(buildah: Buildah, complete: Path) -> str:
    """The image of the scaffold, built without a package index."""
    options = ["--isolation", "chroot", "--build-arg", "BASE=localhost/nri-base", "--build-arg", "PIP_NO_INDEX=1"]
    buildah("build", "--quiet", *options, "--tag", IMAGE, "--file", complete / "Containerfile", complete)
    return IMAGE


def test_the_image_starts_the_plugin_and_names_it(buildah: Buildah, image: str) -> None:
    found = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert found["Entrypoint"] == ["/bin/plugin"]
    assert "NRI_PLUGIN_NAME=pod-name" in found["Env"]


@contextlib.contextmanager
def container(buildah: Buildah, image: str) -> Iterator[str]:
    made = buildah("from", "--pull-never", image).splitlines()[-1]
    try:
        yield made
    finally:
        buildah("rm", made)


def test_the_image_holds_the_nri_of_the_project_and_no_build_tools(
    buildah: Buildah, image: str, complete: Path
) -> None:
    with container(buildah, image) as made:
        listed = buildah(
            "run", "--isolation", "chroot", made, "--", "/plugin/bin/python", "-m", "pip", "list", "--format", "json"
        )
    found = {package["name"].lower(): package["version"] for package in json.loads(listed.splitlines()[0])}
    assert {"nri", "pod-name", "protobuf"} <= set(found)
    assert not {"hatchling", "pytest"} & set(found)
    assert (complete / "wheels" / f"nri-{found['nri']}-py3-none-any.whl").exists(), "nri must be the one beside it"


def test_the_image_runs_without_capabilities_beside_the_reference_runtime(buildah: Buildah, image: str) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-", dir="/tmp") as folder, GoRuntime() as runtime:
        runtime.start(Path(folder, "nri.sock"))
        with container(buildah, image) as made:
            options = ["--isolation", "chroot", "--cap-drop", "all", "--volume", f"{folder}:/var/run/nri:ro"]
            words = [*buildah.argv, "run", *options, made, "--", "/bin/plugin", "-idx", "10"]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                assert runtime.wait_plugins(1, timeout_s=60) == ["10-pod-name"]
                reply = runtime.event("CreateContainer", {"id": "p", "name": "web"}, {"id": "c", "pod_sandbox_id": "p"})
                assert reply["adjust"]["env"] == [{"key": "POD_NAME", "value": "web"}]
                runtime.close()
            finally:
                process.terminate()
                process.communicate(timeout=30)
