"""Known problems of other implementations: an early registration, a restart, a removed mount."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import nri
from nri.api import messages as m
from nri.oci import Generator
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import PATIENCE_S, register, response


def test_a_registration_sent_before_the_runtime_reads_is_accepted() -> None:
    """The plugin sends its registration before the runtime accepts the connection."""
    with FakeRuntime() as runtime:
        local, remote = socket.socketpair()
        local.settimeout(PATIENCE_S)
        local.sendall(register("early", "10"))
        runtime.connect(remote)
        calls = b""
        while b"Configure" not in calls:
            calls += local.recv(65536)
        local.sendall(response(1, m.ConfigureResponse(events=1)))
        while b"Synchronize" not in calls:
            calls += local.recv(65536)
        local.sendall(response(3))
        assert runtime.adaptation.ready(["10-early"], PATIENCE_S), runtime.plugins
        local.close()


class Ends(nri.Plugin):
    """Notes which pods and containers end."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.known: list[str] = []

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.known = [container.id for container in containers]

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.ended.append(container.id)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.ended.append(container.id)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.ended.append(pod.id)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.ended.append(pod.id)


def test_a_pod_older_than_the_runtimes_restart_is_stopped_and_removed() -> None:
    plugin = Ends()
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        pod = make_pod(id="old-pod")
        container = make_container(id="old", pod=pod)
        runtime.run_pod_sandbox(pod)
        runtime.create_container(pod, container)
        runtime.restart()
        assert plugin.known == ["old"], "the plugin receives it again"
        runtime.stop_container(pod, container)
        runtime.remove_container(pod, container)
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
    assert plugin.ended == ["old", "old", "old-pod", "old-pod"]


def test_a_mount_removed_by_a_plugin_is_removed_for_the_runtime_and_later_plugins(
    nri_runtime: FakeRuntime,
) -> None:
    calls: list[list[str]] = []

    class Removes(nri.Plugin):
        def create_container(self, pod: Any, container: Any) -> nri.Adjustment:
            return nri.Adjustment().remove_mount("/secret")

    class Looks(nri.Plugin):
        def create_container(self, pod: Any, container: Any) -> None:
            calls.append([mount.destination for mount in container.mounts])

    nri_runtime.add(Removes(), idx="10").add(Looks(), idx="20")
    container = make_container()
    container.mounts.extend([m.Mount(destination="/secret"), m.Mount(destination="/data")])
    reply = nri_runtime.create_container(make_pod(), container)
    assert reply.removed()["mounts"] == ["/secret"]
    assert calls == [["/data"]]


def test_a_mount_removed_by_a_plugin_is_absent_from_config_json(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    """Duplicates are removed, too; a replacement by the plugin and other mounts are kept."""

    class Replaces(nri.Plugin):
        def create_container(self, pod: Any, container: Any) -> nri.Adjustment:
            return (
                nri.Adjustment()
                .remove_mount("/secret")
                .remove_mount("/old")
                .add_mount("/old", "/new", options=["bind"])
            )

    nri_runtime.add(Replaces())
    existing = ("/proc", "/secret", "/old", "/secret", "/data")
    container = make_container()
    container.mounts.extend(m.Mount(destination=entry) for entry in existing)
    reply = nri_runtime.create_container(make_pod(), container)
    spec = {"mounts": [{"destination": entry, "source": f"/before{entry}"} for entry in existing]}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(Generator(spec).adjust(reply.adjust)))
    mounts = {entry["destination"]: entry["source"] for entry in json.loads(config.read_text())["mounts"]}
    assert mounts == {"/proc": "/before/proc", "/data": "/before/data", "/old": "/new"}
