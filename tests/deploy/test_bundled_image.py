"""The image of all bundled plugins, built with buildah on a local base: its content, and that each plugin starts."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.buildah import Buildah, build_bundled, container
from tests.deploy.rendered import BUNDLED, NEEDS, kustomized
from tests.peers.drivers import GoRuntime
from tests.unit.plugins.resource_annotator.test_webhook import certify

IMAGE = "localhost/nri-plugins:test"
PYTHON = ("/plugin/bin/python", "-I")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def image(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, from the tree as .dockerignore leaves it."""
    build_bundled(buildah, IMAGE, tmp_path_factory.mktemp("wheels"))
    return IMAGE


@pytest.fixture(scope="module")
def container_name(buildah: Buildah, image: str) -> Iterator[str]:
    """A container of the image, for all tests: to make one copies the image."""
    with container(buildah, image) as only:
        yield only


def test_the_image_starts_plugins_isolated_as_an_unprivileged_user(buildah: Buildah, image: str) -> None:
    config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/plugin/bin/python", "-I", "-B", "-m", "nri.plugins"]
    assert not [variable for variable in config["Env"] if variable.startswith("NRI_")], "a manifest selects the plugin"


def test_the_image_has_runtime_packages_and_no_build_tools(buildah: Buildah, container_name: str) -> None:
    words = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
    listed = set(buildah("run", "--isolation", "chroot", container_name, "--", *PYTHON, "-c", words).split())
    assert {"nri", "protobuf"} <= listed
    assert not {"pip", "setuptools", "hatchling", "pytest", "grpcio"} & listed
    mounted = Path(buildah("mount", container_name))
    assert not [*mounted.glob("src"), *mounted.glob("wheel*"), *mounted.glob("tools")]
    assert not list(mounted.rglob("plugin/bin/pip*"))
    assert list(mounted.rglob("plugin/**/nri/plugins/__pycache__/*.pyc")), "its root cannot be written later"


def test_without_a_plugin_name_the_image_lists_its_plugins(buildah: Buildah, container_name: str) -> None:
    words = [*buildah.argv, "run", "--isolation", "chroot", container_name, "--", *PYTHON, "-m", "nri.plugins"]
    process = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 2
    assert "the name of a plugin is required. Plugins: " in process.stderr
    assert "device-injector" in process.stderr


@contextlib.contextmanager
def running(buildah: Buildah, container_name: str, name: str, folder: Path) -> Iterator[None]:
    """A plugin of the image as its DaemonSet starts it: root without capabilities, and only the socket's folder.

    Its configuration is the table's example of one, if it has any.

    Its output goes to this process's output, which pytest shows with a failure.
    """
    options = ["--isolation", "chroot", "--cap-drop", "all", "--user", "0:0", "--volume", f"{folder}:/var/run/nri:ro"]
    words = [*buildah.argv, "run", *options, "--env", f"NRI_PLUGIN_NAME={name}", container_name, "--"]
    command = [*PYTHON, "-B", "-m", "nri.plugins", *NEEDS[name].args]
    if example := NEEDS[name].config:
        Path(folder, "config.yaml").write_text(yaml.safe_dump(example))
        command += ["-config", "/var/run/nri/config.yaml"]
    process = subprocess.Popen([*words, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield
    finally:
        process.terminate()
        print(process.communicate(timeout=30)[0])


def test_the_image_starts_resource_annotator_with_the_arguments_of_its_manifests(
    buildah: Buildah, container_name: str, tmp_path: Path
) -> None:
    (spec,) = (
        manifest
        for manifest in yaml.safe_load_all(kustomized("resource-annotator/issued"))
        if "replicas" in str(manifest)
    )
    (webhook,) = spec["spec"]["template"]["spec"]["containers"]
    certify(tmp_path)
    options = ["--isolation", "chroot", "--cap-drop", "all", "--volume", f"{tmp_path}:/certs:ro"]
    user = webhook["securityContext"]["runAsUser"]
    for path in (tmp_path, *tmp_path.iterdir()):
        os.chown(path, user, user)
    words = [*buildah.argv, "run", *options, "--user", f"{user}:{user}", container_name, "--", *webhook["command"]]
    program = subprocess.Popen([*words, *webhook["args"], "--port=0"], stderr=subprocess.PIPE, text=True)
    try:
        assert program.stderr is not None
        line = program.stderr.readline()
        assert "ready: port " in line, line
        context = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
        with urllib.request.urlopen(f"https://localhost:{line.split()[-1]}/", context=context, timeout=30) as answer:
            assert answer.status == 200
    finally:
        program.terminate()
        program.communicate(timeout=30)


@pytest.mark.parametrize("name", BUNDLED)
def test_each_plugin_of_the_image_registers_with_the_reference_runtime(
    buildah: Buildah, container_name: str, name: str
) -> None:
    labels = [f"{index}-{name}" for index in NEEDS[name].args[1].split(",")]
    with tempfile.TemporaryDirectory(prefix="nri-", dir="/tmp") as folder, GoRuntime() as runtime:
        runtime.start(Path(folder, "nri.sock"))
        with running(buildah, container_name, name, Path(folder)):
            assert sorted(runtime.wait_plugins(len(labels), timeout_s=60)) == labels
            runtime.close()
