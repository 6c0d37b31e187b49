"""Bundled plugins on real containers of our own engine, as programs of their own: what they do is read back."""

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
    """A bundled plugin beside the engine, until the end of the `with`."""
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
def test_hooks_run_with_the_container_s_state_and_new_ones_without_a_restart(node: Node, handler: str) -> None:
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
class Beside:
    """An engine with all plugins, as `bundled.Side` wants it, and what plain containers read, by OCI runtime."""

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
def beside(node: Node) -> Iterator[Beside]:
    """All plugins beside an engine with three OCI runtimes and a CDI device."""
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
    side = Beside(node, {}, {})
    side.before = {handler: shared.plain(side, handler) for handler in RUNTIMES["nri"]}
    with programs_of(node) as programs:
        side.programs = programs
        yield side


def programs_of(node: Node, which: Iterable[shared.Program] = shared.PROGRAMS) -> Any:
    """Plugins beside the node's engine."""
    adaptation = node.engine.nri.adaptation
    assert adaptation is not None
    socket = Path(node.config.nri.socket_path)
    return shared.programs(node.folder, socket, lambda name: adaptation.ready([name], 0.1), which)


def test_each_plugin_has_the_effect_that_the_table_says(beside: Beside) -> None:
    wrong = {}
    for handler in RUNTIMES["nri"]:
        measure = shared.measure(beside, handler, beside.node.folder, beside.before[handler])
        wrong[handler] = differences("nri", handler, measure)
    assert wrong == {handler: {} for handler in RUNTIMES["nri"]}
    assert shared.ended(beside.programs) == set()
    for policy, program in shared.POLICIES.items():
        with programs_of(beside.node, program):
            for handler in RUNTIMES["nri"]:
                measure = shared.measure_policy(beside, handler, beside.node.folder, beside.before[handler], policy)
                assert differences("nri", handler, measure, measure) == {}, policy


def test_bad_annotations_refuse_and_are_named_and_plugins_that_watch_tell_what_they_see(beside: Beside) -> None:
    assert shared.not_refused(beside) == {}
    shared.assert_pods_refused(beside)
    shared.assert_watched(beside, beside.programs, beside.address)
