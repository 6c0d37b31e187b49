"""Containers that an OCI runtime runs from our specs, and what they print: no engine around them.

Everything has a name of its own and is gone afterwards: container, cgroup, folders.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.machine import detect_machine, find_devices, with_features
from nri.engine.spec import Account, ImageConfig, Machine, Options, Pod, container_spec
from tests.engine.registry import extract
from tests.support.needs import need_root, need_tool
from tools.runtimes.images import image_archive
from tools.runtimes.machine import PATIENCE

SHELL = ("/bin/sh", "-c")
IMAGE = ImageConfig(env=("PATH=/bin",))
CGROUPS = Path("/sys/fs/cgroup")


def rootfs(folder: Path) -> Path:
    """A busybox root file system below a folder."""
    rootfs_ = folder / "rootfs"
    with tarfile.open(image_archive(print)) as outer:
        for name in outer.getnames():
            blob = outer.extractfile(name) if "sha256/" in name else None
            if blob is not None and blob.read(2) == b"\x1f\x8b":
                blob.seek(0)
                with tarfile.open(fileobj=blob) as layer:
                    extract(layer, rootfs_)
    return rootfs_


def host_options(**more: bool) -> pb.NamespaceOption:
    """Nothing of a pod is needed: the node's network and IPC, processes of its own."""
    return pb.NamespaceOption(network=pb.NODE, ipc=pb.NODE, pid=pb.CONTAINER)


class Bundles:
    """Runs containers with one OCI runtime, from one root file system."""

    def __init__(self, folder: Path, runtime: str = "runc") -> None:
        need_root()
        self.binary = need_tool(runtime)
        self.folder = folder
        self.rootfs = rootfs(folder)
        self.parent = f"nri-spec-{uuid.uuid4().hex[:8]}"
        features = subprocess.run([self.binary, "features"], capture_output=True, check=False)
        self.machine: Machine = with_features(
            detect_machine(), json.loads(features.stdout) if not features.returncode else {}
        )
        self.started: list[str] = []

    def close(self) -> None:
        """Remove what is left of the containers, and their cgroups."""
        for container in self.started:
            self.call("delete", "--force", container, check=False)
        deadline = time.monotonic() + 20 * PATIENCE
        while time.monotonic() < deadline:
            glob = [path for path in CGROUPS.glob(f"**/{self.parent}") if path.is_dir()]
            for path in glob:
                try:
                    os.rmdir(path)
                except OSError:
                    time.sleep(0.02)  # a process of it is still ending
            if not glob:
                return
        raise AssertionError(f"cgroups are left: {self.parent}")

    def call(self, *words: str, check: bool = True) -> str:
        """Call the OCI runtime; returns what it prints."""
        command = [self.binary, "--root", str(self.folder / "state"), *words]
        # A file and no pipe: a container in the background holds it open.
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.run(
                command,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                timeout=30 * PATIENCE,
                check=False,
                cwd=self.folder,
            )
            out.seek(0)
            printed = out.read()
        if check and process.returncode:
            raise AssertionError(f"{words[0]}: exit code {process.returncode}: {printed}")
        return printed

    def pod(self, **config: Any) -> Pod:
        """A pod that has nothing of its own; its cgroup is ours."""
        linux = config.pop("linux", pb.LinuxPodSandboxConfig())
        linux.cgroup_parent = f"/{self.parent}"
        return Pod("p1", pb.PodSandboxConfig(linux=linux, **config))

    def spec(self, config: pb.ContainerConfig, pod: Pod | None = None, **options: Any) -> dict[str, Any]:
        """The spec of a container; a container that says nothing of namespaces needs no pod's."""
        security = config.linux.security_context
        if not security.HasField("namespace_options"):
            security.namespace_options.CopyFrom(host_options())
        image = options.pop("image", IMAGE)
        account = options.pop("account", Account())
        paths = [device.host_path for device in config.devices] + (["/dev"] if security.privileged else [])
        options_ = Options(
            container_id=f"c{uuid.uuid4().hex[:12]}",
            rootfs=str(self.rootfs),
            account=account,
            machine=options.pop("machine", self.machine),
            devices={path: find_devices(path) for path in paths},
        )
        return container_spec(pod or self.pod(), config, image, replace(options_, **options)).spec

    def run(self, spec: dict[str, Any], *words: str) -> str:
        """Run a container to its end, or with ``-d`` in the background; returns what it prints, or its id."""
        container = f"{self.parent}-{uuid.uuid4().hex[:6]}"
        bundle = self.folder / container
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(spec))
        self.started.append(container)
        printed = self.call("run", "--bundle", str(bundle), *words, container)
        return container if words else printed

    def shell(
        self, script: str, pod: Pod | None = None, config: pb.ContainerConfig | None = None, **options: Any
    ) -> str:
        """Run a script in a container with this configuration; returns what it prints, stripped."""
        container_config = pb.ContainerConfig(command=[*SHELL, script])
        if config is not None:
            container_config.MergeFrom(config)
        return self.run(self.spec(container_config, pod, **options)).strip()

    def pid(self, container: str) -> int:
        """The process id of a container that runs."""
        return int(json.loads(self.call("state", container))["pid"])
