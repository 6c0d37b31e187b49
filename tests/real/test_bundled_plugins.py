"""Bundled plugins on real containerds, as programs of their own beside them: what they do is read back.

The outcome is measured first and then compared with the table, so what stops working and what starts to both fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from nri.conformance.fields import CDI_SPEC, View
from nri.cri.pb import api_pb2 as pb
from tests.real import bundled
from tests.real.bundled import Refused
from tests.real.bundled_matrix import OF_CONTAINERD, differences
from tests.real.conftest import Runtime
from tests.real.support_matrix import EVENTS, FACTS, YES
from tests.real.view import ContainerView
from tests.support.plugin_program import PluginProgram
from tools.runtimes.cri import Pod


@dataclass
class Beside:
    """A containerd with the plugins, as `bundled.Side` wants it, and what plain containers read, by OCI runtime."""

    runtime: Runtime
    folder: Path
    programs: Mapping[str, PluginProgram]
    before: dict[str, dict[str, str]]

    def pod(self, name: str, annotations: Mapping[str, str], handler: str) -> Pod:
        try:
            return self.runtime.daemon.cri.run_pod(name, annotations=annotations, own_network=True, handler=handler)
        except grpc.RpcError as error:
            raise Refused(error.details()) from error

    def container(self, pod: Pod, name: str, annotations: Mapping[str, str]) -> View:
        cri = self.runtime.daemon.cri
        try:
            reply = cri.create(pod, name, annotations=annotations)
            cri.start(reply)
        except grpc.RpcError as error:
            raise Refused(error.details()) from error
        return ContainerView(cri, reply, self.folder)

    def stop(self, pod: Pod) -> None:
        self.runtime.daemon.cri.stop_pod(pod.id)

    def address(self, pod: Pod) -> str:
        """Its address, as far as plugins are told."""
        status = self.runtime.daemon.cri.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id))
        return str(status.status.network.ip) if FACTS["pod-ips"][self.runtime.key] == YES else ""

    def remove(self, pod: Pod) -> None:
        self.runtime.daemon.cri.remove_pod(pod.id)


@pytest.fixture(scope="module")
def beside(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """All plugins beside the shared daemon."""
    folder, daemon = tmp_path_factory.mktemp("bundled"), runtime.daemon
    devices = daemon.run_dir / "cdi/test.json"
    devices.write_text(json.dumps(CDI_SPEC))
    bundled.prepare(folder)
    side = Beside(runtime, folder, {}, {})
    side.before = {handler: bundled.plain(side, handler) for handler in OF_CONTAINERD}
    with bundled.programs(folder, daemon.nri_socket, daemon.has_connected) as side.programs:
        yield side
    devices.unlink()  # a device that another file has as well cannot be resolved, and the daemon is shared
    daemon.cri.remove_all()


@pytest.mark.parametrize("handler", OF_CONTAINERD)
def test_each_plugin_has_the_effect_that_the_table_says(beside: Beside, handler: str) -> None:
    outcomes = bundled.measure(beside, handler, beside.folder, beside.before[handler])
    assert differences(beside.runtime.key, handler, outcomes) == {}


@pytest.mark.parametrize("policy", bundled.POLICIES)
def test_each_policy_has_the_effect_that_the_table_says(beside: Beside, policy: str) -> None:
    key, daemon, folder = beside.runtime.key, beside.runtime.daemon, beside.folder
    with bundled.programs(folder, daemon.nri_socket, daemon.has_connected, bundled.POLICIES[policy]):
        for handler in OF_CONTAINERD:
            outcomes = bundled.measure_policy(beside, handler, folder, beside.before[handler], policy)
            assert differences(key, handler, outcomes, outcomes) == {}


def test_only_a_plugin_without_an_event_at_the_runtime_ends(beside: Beside) -> None:
    needed = next(row for row in EVENTS if row.name == "ValidateContainerAdjustment")[beside.runtime.key]
    assert bundled.ended(beside.programs) == (set() if needed == YES else {"default-validator"})


def test_crun_1_8_starts_no_pod_of_these_containerds(beside: Beside) -> None:
    with pytest.raises(Refused, match="unknown version specified"):
        beside.pod("by-crun", {}, "crun")


def test_a_bad_annotation_refuses_the_container_and_is_named(beside: Beside) -> None:
    assert bundled.not_refused(beside) == {}


def test_a_pod_that_cannot_have_all_devices_does_not_start_and_the_host_keeps_them(beside: Beside) -> None:
    bundled.assert_pods_refused(beside)


def test_the_plugins_that_watch_tell_what_they_see(beside: Beside) -> None:
    bundled.assert_watched(beside, beside.programs, beside.address)
