"""The scaffold's Containerfile, built with buildah on a local base, and the image with the reference runtime."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.deploy.buildah import Buildah, container
from tests.peers.drivers import GoRuntime

IMAGE = "localhost/pod-name:0.1.0"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def image(buildah: Buildah, complete: Path) -> str:
    """The image of the scaffold, built without a package index."""
    options = ["--isolation", "chroot", "--build-arg", "BASE=localhost/nri-base", "--build-arg", "PIP_NO_INDEX=1"]
    buildah("build", "--quiet", *options, "--tag", IMAGE, "--file", complete / "Containerfile", complete)
    return IMAGE


def test_the_image_starts_the_plugin_under_its_name(buildah: Buildah, image: str) -> None:
    config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert config["Entrypoint"] == ["/bin/plugin"]
    assert "NRI_PLUGIN_NAME=pod-name" in config["Env"]


def test_the_image_has_this_projects_nri_and_no_build_tools(buildah: Buildah, image: str, complete: Path) -> None:
    with container(buildah, image) as container_name:
        listed = buildah(
            "run",
            "--isolation",
            "chroot",
            container_name,
            "--",
            "/plugin/bin/python",
            "-m",
            "pip",
            "list",
            "--format",
            "json",
        )
    versions = {package["name"].lower(): package["version"] for package in json.loads(listed.splitlines()[0])}
    assert {"nri", "pod-name", "protobuf"} <= set(versions)
    assert not {"hatchling", "pytest"} & set(versions)
    assert (complete / "wheels" / f"nri-{versions['nri']}-py3-none-any.whl").exists(), (
        "nri must be the wheel of this folder"
    )


def test_the_image_runs_without_capabilities(buildah: Buildah, image: str) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-", dir="/tmp") as folder, GoRuntime() as runtime:
        runtime.start(Path(folder, "nri.sock"))
        with container(buildah, image) as container_name:
            options = ["--isolation", "chroot", "--cap-drop", "all", "--volume", f"{folder}:/var/run/nri:ro"]
            words = [*buildah.argv, "run", *options, container_name, "--", "/bin/plugin", "-idx", "10"]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                assert runtime.wait_plugins(1, timeout_s=60) == ["10-pod-name"]
                reply = runtime.event("CreateContainer", {"id": "p", "name": "web"}, {"id": "c", "pod_sandbox_id": "p"})
                assert reply["adjust"]["env"] == [{"key": "POD_NAME", "value": "web"}]
                runtime.close()
            finally:
                process.terminate()
                process.communicate(timeout=30)
