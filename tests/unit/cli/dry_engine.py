"""The engine as a process of its own that runs nothing (`nri engine serve` with `dry`), for tests of what talks CRI."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from tests.unit.cli.conftest import command, environment

TIMEOUT_S = 30.0


def settings(folder: Path, more: str = "") -> str:
    file = folder / "engine.toml"
    file.write_text(
        f'dry = true\nsocket = "{folder}/cri.sock"\nroot = "{folder}/root"\nstate = "{folder}/state"\n{more}'
        f'[network]\nconfig_dir = "{folder}"\n'
        f'[nri]\nsocket_path = "{folder}/nri.sock"\nadmin_socket = "{folder}/admin.sock"\npolicy_path = ""\n'
        f'plugin_path = "{folder}/plugins"\n'
    )
    return str(file)


@contextmanager
def starting_engine(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A dry engine, its log in a file; killed at the end if it still runs."""
    argv = command("engine", "serve", "--config", settings(folder), *arguments)
    with (folder / "log").open("wb") as output:
        with subprocess.Popen(argv, stderr=output, env=environment(**variables)) as process:
            try:
                yield process
            finally:
                process.kill()


@contextmanager
def engine(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A dry engine that is ready."""
    with starting_engine(folder, *arguments, **variables) as process:
        wait_logged(process, folder, " ready: ")
        yield process


def wait_logged(process: subprocess.Popen[bytes], folder: Path, text: str) -> None:
    """Wait until the log of an engine has a text."""
    deadline, log = time.monotonic() + TIMEOUT_S, folder / "log"
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.005)


def pod_with_container(cri: CriClient, folder: Path) -> str:
    """Run a pod with one container; returns the container's id."""
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", uid="u1", namespace="default"), log_directory=str(folder / "logs")
    )
    pod = cri.call("RunPodSandbox", pb.RunPodSandboxRequest(config=config)).pod_sandbox_id
    container = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"),
        image=pb.ImageSpec(image="busybox"),
        command=["sleep", "9"],
        log_path="app.log",
    )
    request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=container, sandbox_config=config)
    created: str = cri.call("CreateContainer", request).container_id
    cri.call("StartContainer", pb.StartContainerRequest(container_id=created))
    return created
