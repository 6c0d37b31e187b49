"""Bundled plugins as separate programs on real containers of our engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nri.conformance.fields import CDI_SPEC, View
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import OciRuntime
from nri.errors import NriError
from tests.engine.node import Node
from tests.engine.view import EngineView
from tests.real import bundled as shared
from tests.real.bundled import Refused, write_hook
from tests.real.bundled_cases import STATES
from tests.real.bundled_matrix import RUNTIMES, differences
from tests.support.oci_runtimes import newer_runc
from tests.support.plugin_program import PluginProgram
from tests.support.waiting import wait_for


@contextmanager
def bundled(node: Node, name: str, *flags: str) -> Iterator[PluginProgram]:
    """A bundled plugin next to the engine, until the end of the `with`."""
    adaptation = node.engine.nri.adaptation
    assert adaptation is not None
    module = f"nri.plugins.{name.replace('-', '_')}.plugin"
    program = PluginProgram(node.folder, "-m", module, "-idx", "10", "-socket", node.config.nri.socket_path, *flags)
    try:
        # By its process: one of the same name that was killed a moment ago may not be gone yet.
        it = (f"10-{name}", program.process.pid, "active")
        wait_for(
            lambda: it in [(plugin.plugin, plugin.pid, plugin.state) for plugin in adaptation.plugins], program.text
        )
        yield program
    finally:
        program.stop()


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_hooks_run_with_the_containers_state_and_new_hooks_need_no_restart(node: Node, handler: str) -> None:
    folder = node.folder / "hooks.d"
    with bundled(node, "hook-injector", f"-hooks-dirs={folder}") as plugin:
        folder.mkdir()  # it comes later
        states = {stage: write_hook(folder, stage, {"commands": ["^sleep$"]}) for stage in STATES}
        pod = node.pod(handler=handler)
        other = node.run(pod, "other", ("sh", "-c", "sleep 1000"))
        assert not any(state.exists() for state in states.values()), "hooks of other containers"
        container_id = node.run(pod, "app", ("sleep", "1000"))
        node.engine.container_removal.stop(container_id)
        node.engine.container_removal.remove(container_id)
        for stage, state in states.items():
            node.wait_for(state.exists, f"the hook of {stage}")
            document = json.loads(state.read_text())
            assert document["id"] == container_id and document["status"] in STATES[stage], stage
            state.unlink()
        (folder / "poststop.json").write_text("{")  # a mistake takes no hook away
        plugin.wait_text("the previous hooks stay in force")
        node.run(pod, "again", ("sleep", "1000"))
        node.wait_for(states["poststart"].exists, "the hook after a mistake in another file")
        node.engine.container_removal.remove(other)
        node.remove(pod)


@dataclass
class RuntimeWithPlugins:
    """An engine with all plugins, as `bundled.Side` requires it, and what plain containers read, by OCI runtime."""

    node: Node
    programs: Mapping[str, PluginProgram]
    before: dict[str, dict[str, str]]

    def pod(self, name: str, annotations: Mapping[str, str], handler: str) -> str:
        config = self.node.pod_config(name, network=pb.POD)
        config.metadata.namespace = "default"
        config.annotations.update(annotations)
        try:
            return self.node.engine.pod_creation.run(config, handler)
        except NriError as error:
            raise Refused(str(error)) from error

    def container(self, pod: str, name: str, annotations: Mapping[str, str]) -> View:
        try:
            view = EngineView(self.node, self.node.run(pod, name, annotations=annotations), self.node.folder)
        except NriError as error:
            raise Refused(str(error)) from error
        command = Path(f"/proc/{view.pid}/cmdline")
        self.node.wait_for(lambda: b"init" not in command.read_bytes(), "the container's own process")
        return view

    def stop(self, pod: str) -> None:
        self.node.engine.pod_removal.stop(pod)

    def remove(self, pod: str) -> None:
        self.node.remove(pod)

    def address(self, pod: str) -> str:
        (ip,) = self.node.engine.inventory.pod(pod).record.ips
        return ip


@pytest.fixture
def with_plugins(node: Node) -> Iterator[RuntimeWithPlugins]:
    """All plugins next to an engine with three OCI runtimes and a CDI device."""
    config, folder = node.config, node.folder
    (folder / "cdi").mkdir()
    (folder / "cdi/test.json").write_text(json.dumps(CDI_SPEC))
    shared.prepare(folder)
    node.start(
        replace(
            config,
            runtimes={**config.runtimes, "runc13": OciRuntime(newer_runc())},
            containers=replace(config.containers, cdi_dirs=(str(folder / "cdi"),)),
        )
    )
    side = RuntimeWithPlugins(node, {}, {})
    side.before = {handler: shared.plain(side, handler) for handler in RUNTIMES["nri"]}
    with programs_of(node) as programs:
        side.programs = programs
        yield side


def programs_of(node: Node, which: Iterable[shared.Program] = shared.PROGRAMS) -> Any:
    """Plugins next to the node's engine."""
    adaptation = node.engine.nri.adaptation
    assert adaptation is not None
    socket = Path(node.config.nri.socket_path)
    return shared.programs(node.folder, socket, lambda name: adaptation.ready([name], 0.1), which)


def test_each_plugin_has_the_documented_effect(with_plugins: RuntimeWithPlugins) -> None:
    wrong = {}
    for handler in RUNTIMES["nri"]:
        measure = shared.measure(with_plugins, handler, with_plugins.node.folder, with_plugins.before[handler])
        wrong[handler] = differences("nri", handler, measure)
    assert wrong == {handler: {} for handler in RUNTIMES["nri"]}
    assert shared.ended(with_plugins.programs) == set()
    for policy, program in shared.POLICIES.items():
        with programs_of(with_plugins.node, program):
            for handler in RUNTIMES["nri"]:
                measure = shared.measure_policy(
                    with_plugins, handler, with_plugins.node.folder, with_plugins.before[handler], policy
                )
                assert differences("nri", handler, measure, measure) == {}, policy


def test_bad_annotations_are_errors_and_observing_plugins_log_events(
    with_plugins: RuntimeWithPlugins,
) -> None:
    assert shared.not_refused(with_plugins) == {}
    shared.assert_pods_refused(with_plugins)
    shared.assert_watched(with_plugins, with_plugins.programs, with_plugins.address)


def test_the_policy_validator_enforces_the_operators_policy(with_plugins: RuntimeWithPlugins) -> None:
    node = with_plugins.node
    shared.assert_policy_enforced(
        with_plugins, node.folder, lambda which: programs_of(node, which), by="91-policy-validator"
    )


def test_a_container_is_prepared_for_systemd(with_plugins: RuntimeWithPlugins) -> None:
    shared.assert_prepared_for_systemd(with_plugins, lambda which: programs_of(with_plugins.node, which))


def test_systemd_is_stopped_by_its_own_signal(node: Node) -> None:
    with bundled(node, "systemd-container"):
        config = node.pod_config("systemd")
        config.annotations["systemd.noderesource.dev"] = "true"
        pod = node.engine.pod_creation.run(config, "")
        container_id = node.run(pod, "app", shared.AT_RTMIN_3)
        node.engine.container_removal.stop(container_id, 30)
        assert node.engine.inventory.container(container_id).record.exit_code == 7
        node.remove(pod)


def test_the_image_policy_uses_the_digest_that_the_engine_reports(with_plugins: RuntimeWithPlugins) -> None:
    node = with_plugins.node
    shared.assert_images_policed(with_plugins, node.folder, lambda which: programs_of(node, which), reports_digest=True)
