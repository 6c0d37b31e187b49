"""Bundled plugins on real containerds, as separate programs; their effects are read back.

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
class RuntimeWithPlugins:
    """A containerd with the plugins, as `bundled.Side` requires it, and what plain containers read, by OCI runtime."""

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
        """The pod's address, or an empty text if this runtime does not report it to plugins."""
        status = self.runtime.daemon.cri.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id))
        return str(status.status.network.ip) if FACTS["pod-ips"][self.runtime.key] == YES else ""

    def remove(self, pod: Pod) -> None:
        self.runtime.daemon.cri.remove_pod(pod.id)


@pytest.fixture(scope="module")
def with_plugins(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeWithPlugins]:
    """All plugins next to the shared daemon."""
    folder, daemon = tmp_path_factory.mktemp("bundled"), runtime.daemon
    devices = daemon.run_dir / "cdi/test.json"
    devices.write_text(json.dumps(CDI_SPEC))
    bundled.prepare(folder)
    side = RuntimeWithPlugins(runtime, folder, {}, {})
    side.before = {handler: bundled.plain(side, handler) for handler in OF_CONTAINERD}
    with bundled.programs(folder, daemon.nri_socket, daemon.has_connected) as side.programs:
        yield side
    devices.unlink()  # a device that another file has as well cannot be resolved, and the daemon is shared
    daemon.cri.remove_all()


@pytest.mark.parametrize("handler", OF_CONTAINERD)
def test_every_plugin_has_the_documented_effect(with_plugins: RuntimeWithPlugins, handler: str) -> None:
    outcomes = bundled.measure(with_plugins, handler, with_plugins.folder, with_plugins.before[handler])
    assert differences(with_plugins.runtime.key, handler, outcomes) == {}


@pytest.mark.parametrize("policy", bundled.POLICIES)
def test_every_policy_has_the_documented_effect(with_plugins: RuntimeWithPlugins, policy: str) -> None:
    key, daemon, folder = with_plugins.runtime.key, with_plugins.runtime.daemon, with_plugins.folder
    with bundled.programs(folder, daemon.nri_socket, daemon.has_connected, bundled.POLICIES[policy]):
        for handler in OF_CONTAINERD:
            outcomes = bundled.measure_policy(with_plugins, handler, folder, with_plugins.before[handler], policy)
            assert differences(key, handler, outcomes, outcomes) == {}


def test_the_policy_validator_enforces_the_operators_policy(with_plugins: RuntimeWithPlugins) -> None:
    daemon = with_plugins.runtime.daemon
    needed = next(row for row in EVENTS if row.name == "ValidateContainerAdjustment")[with_plugins.runtime.key]
    bundled.assert_policy_enforced(
        with_plugins,
        with_plugins.folder,
        lambda which: bundled.programs(with_plugins.folder, daemon.nri_socket, daemon.has_connected, which),
        by="91-policy-validator" if needed == YES else "",
    )


def test_a_container_is_prepared_for_systemd(with_plugins: RuntimeWithPlugins) -> None:
    daemon, folder = with_plugins.runtime.daemon, with_plugins.folder
    bundled.assert_prepared_for_systemd(
        with_plugins, lambda which: bundled.programs(folder, daemon.nri_socket, daemon.has_connected, which)
    )


def test_the_image_policy_uses_the_image_that_the_runtime_reports(with_plugins: RuntimeWithPlugins) -> None:
    daemon, folder = with_plugins.runtime.daemon, with_plugins.folder
    bundled.assert_images_policed(
        with_plugins,
        folder,
        lambda which: bundled.programs(folder, daemon.nri_socket, daemon.has_connected, which),
        reports_digest=with_plugins.runtime.key == "2.4",
    )


def test_the_image_policy_reads_a_missing_digest_from_the_cri(
    with_plugins: RuntimeWithPlugins,
) -> None:
    daemon, folder = with_plugins.runtime.daemon, with_plugins.folder
    rules = [{"digest": [f"sha256:{'0' * 64}"], "action": "allow"}]
    program = bundled.image_policy(folder, "43", rules=rules, cri_socket=str(daemon.cri_socket), unknown_image="deny")
    with bundled.programs(folder, daemon.nri_socket, daemon.has_connected, program):
        pod = with_plugins.pod("by-digest", {}, "")
        if with_plugins.runtime.key == "2.4":
            with_plugins.container(pod, "c", {})
        else:  # an imported image has no digest of a registry
            with pytest.raises(Refused, match="rule 1 requires its digest, but it has none"):
                with_plugins.container(pod, "c", {})
        with_plugins.remove(pod)


def test_only_a_plugin_without_a_supported_event_exits(with_plugins: RuntimeWithPlugins) -> None:
    needed = next(row for row in EVENTS if row.name == "ValidateContainerAdjustment")[with_plugins.runtime.key]
    assert bundled.ended(with_plugins.programs) == (set() if needed == YES else {"default-validator"})


def test_crun_1_8_cannot_start_pods_of_these_containerds(with_plugins: RuntimeWithPlugins) -> None:
    with pytest.raises(Refused, match="unknown version specified"):
        with_plugins.pod("by-crun", {}, "crun")


def test_an_invalid_annotation_is_an_error_with_its_name(with_plugins: RuntimeWithPlugins) -> None:
    assert bundled.not_refused(with_plugins) == {}


def test_a_pod_without_all_its_devices_is_refused_and_the_host_keeps_them(
    with_plugins: RuntimeWithPlugins,
) -> None:
    bundled.assert_pods_refused(with_plugins)


def test_observing_plugins_report_events(with_plugins: RuntimeWithPlugins) -> None:
    bundled.assert_watched(with_plugins, with_plugins.programs, with_plugins.address)
