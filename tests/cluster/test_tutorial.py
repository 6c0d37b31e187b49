"""The tutorial, docs/tutorial.md, from its first to its last command on the cluster.

Two commands are stand-ins: `buildah` builds on the base image of the tests, and its push loads the image into the
nodes, because there is no registry. The image of the pod is that of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.images import load_archive
from tests.cluster.machine import Cluster
from tests.cluster.pods import NODES, pod_on, wait_logged
from tests.deploy.buildah import Buildah, buildah_with_base
from tests.kubernetes import build
from tests.support.commands import run
from tests.support.pages import commands, output_matches, read_blocks
from tools.nodes.machine import ROOT
from tools.runtimes.images import BUSYBOX

PAGE = ROOT / "docs/tutorial.md"
IMAGE = "registry.example/team-env:0.1.0"
DAEMON_SET = ("-n", "kube-system", "daemonset/nri-plugin-team-env")


class Reader:
    """Somebody who does what the page says, in one folder.

    Args:
        folder: an empty folder.
    """

    def __init__(self, cluster: Cluster, tool: Buildah, folder: Path) -> None:
        self._cluster, self._tool, self._folder = cluster, tool, folder
        programs = folder / "programs"
        programs.mkdir()
        kubectl = programs / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec nsenter --target={cluster.pid} --net {build.program("kubectl")} "$@"\n')
        kubectl.chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        config = f"{cluster.folder}/api/kubeconfig"
        self._environment = {**os.environ, "PATH": path, "KUBECONFIG": config, "HOME": str(folder), "NO_COLOR": "1"}

    def save(self, name: str, text: str) -> None:
        """Save a file of the page."""
        self._folder.joinpath(name).write_text(text.replace("image: busybox:1.37", f"image: {BUSYBOX}"))

    def do(self, command: str, expected: str) -> None:
        """Run a command of the page, and compare its output if the page shows one."""
        if command.startswith("buildah build "):
            self._build()
        elif command.startswith("buildah push "):
            archive = self._folder / "image.tar"
            self._tool("push", "--quiet", IMAGE, f"oci-archive:{archive}:{IMAGE}")
            load_archive(self._cluster, IMAGE, archive)
        else:
            process = subprocess.run(
                ["/bin/sh", "-e", "-c", command], cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
            )  # fmt: skip
            assert process.returncode == 0, f"$ {command}\n{process.stdout}"
            assert not expected or output_matches(expected, process.stdout), f"$ {command}\n{process.stdout}"
        if " rollout status " in command:
            self._wait_registered()

    def _wait_registered(self) -> None:
        """Wait until the plugin of each node has logged what the page expects, because the pod may run on any node."""
        for node in NODES:
            name = pod_on(self._cluster, "app.kubernetes.io/name=team-env", node)
            wait_logged(self._cluster, name, "registered with")

    def _build(self) -> None:
        project = self._folder / "team-env"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--dest", "wheels", "--find-links", "wheels", ".", "hatchling>=1.26"], cwd=project)
        options = ["--isolation", "chroot", "--build-arg", "BASE=localhost/nri-base", "--build-arg", "PIP_NO_INDEX=1"]
        self._tool("build", "--quiet", *options, "--tag", IMAGE, project)


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """A reader, whose objects in the cluster are gone after the test."""
    with buildah_with_base() as tool:
        try:
            yield Reader(cluster, tool, tmp_path)
        finally:
            cluster.kubectl("delete", "--ignore-not-found", "pod/web")
            cluster.kubectl("delete", "--ignore-not-found", *DAEMON_SET)


def test_a_reader_of_the_tutorial_has_a_plugin_in_the_cluster(reader: Reader) -> None:
    count = 0
    for block in read_blocks(PAGE):
        if block.action.startswith("file="):
            reader.save(block.action.removeprefix("file="), block.text)
        elif block.language == "console":
            for command, expected in commands(block.text):
                reader.do(command, expected)
                count += 1
    assert count > 10
