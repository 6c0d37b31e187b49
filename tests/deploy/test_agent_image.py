"""The image of the node agent, built with buildah on a local base: its content, and that the agent runs in it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.buildah import Buildah, build_agent, container
from tests.deploy.rendered import kustomized
from tests.deploy.test_agent_manifests import named
from tests.peers.drivers import GoRuntime
from tests.support.waiting import wait_for

IMAGE = "localhost/nri-agent:test"
NRI = ("/agent/bin/python", "-I", "-B", "-m", "nri")
SETTINGS = """\
modes: [nri]
root: /host
socket: /run/nri-agent/agent.sock
rules: {source: files, path: /etc/nri-agent/rules}
pods: {source: files, path: /etc/nri-agent/pods}
gates: {BECPUSuppress: false, CPUBurst: false}
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def image(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, from the tree as .dockerignore leaves it."""
    build_agent(buildah, IMAGE, tmp_path_factory.mktemp("wheels"))
    return IMAGE


@pytest.fixture(scope="module")
def container_name(buildah: Buildah, image: str) -> Iterator[str]:
    """A container of the image, for all tests: to make one copies the image."""
    with container(buildah, image) as only:
        yield only


def test_the_image_runs_the_command_as_an_unprivileged_user(buildah: Buildah, image: str) -> None:
    config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == list(NRI)
    assert not [variable for variable in config["Env"] if variable.startswith("NRI_")]


def test_the_image_has_runtime_packages_and_no_build_tools(buildah: Buildah, container_name: str) -> None:
    words = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
    listed = set(buildah("run", "--isolation", "chroot", container_name, "--", NRI[0], "-I", "-c", words).split())
    assert {"nri", "protobuf", "grpcio", "lightkube"} <= listed
    assert not {"pip", "setuptools", "hatchling", "pytest"} & listed


def test_the_agent_registers_with_the_reference_runtime(buildah: Buildah, container_name: str) -> None:
    (described,) = named(kustomized("agent"))["DaemonSet", "nri-agent"]["spec"]["template"]["spec"]["containers"]
    with tempfile.TemporaryDirectory(prefix="nri-", dir="/tmp") as folder, GoRuntime() as runtime:
        place = Path(folder)
        for name in ("nri", "host", "config", "socket"):
            (place / name).mkdir()
        (place / "config/agent.yaml").write_text(SETTINGS)
        runtime.start(place / "nri/nri.sock")
        # Root without capabilities, and of the node only what the DaemonSet mounts: here an empty one.
        options = ["--isolation", "chroot", "--cap-drop", "all", "--user", "0:0"]
        for source, target in (("nri", "/var/run/nri:ro"), ("host", "/host:ro"), ("config", "/etc/nri-agent:ro"),
                               ("socket", "/run/nri-agent")):  # fmt: skip
            options += ["--volume", f"{place / source}:{target}"]
        words = [*buildah.argv, "run", *options, container_name, "--", *NRI, *described["args"]]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert runtime.wait_plugins(1, timeout_s=60) == ["00-nri-agent"]
            wait_for((place / "socket/agent.sock").exists, "the agent's socket")
            capabilities = buildah(
                "run", *options, container_name, "--", *NRI, "agent", "capabilities", "--root", "/host", "-o", "json"
            )
            assert {row["supported"] for row in json.loads(capabilities) if row["what"] != "core scheduling"} == {False}
            runtime.close()
        finally:
            process.terminate()
            print(process.communicate(timeout=30)[0])
