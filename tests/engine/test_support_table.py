"""The engine's column of docs/reference/runtimes.md, cell by cell: what plugins ask for, read back from containers.

Rules: as in tests/real/test_adjustments.py, whose cases these are: the outcome is measured first and then compared, so
what stops working and what starts to work both fail.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from tests.engine.node import V2, Node, Recorder, unsolicited
from tests.engine.view import EngineView
from tests.real import engine_matrix
from tests.real.adjustments import CASES, CDI_SPEC, Case
from tests.real.controls import MIB
from tests.real.support_matrix import APPLIED, FACTS, IGNORED
from tests.real.test_updates import SETTERS
from tests.support.needs import need_machine
from tools.runtimes.machine import PATIENCE

pytestmark = pytest.mark.timeout(300)


def started(node: Node) -> Recorder:
    """The engine with a folder of CDI devices and a plugin."""
    need_machine(not V2, "cgroups of version 1, with which the other columns were measured")
    (node.folder / "cdi").mkdir()
    (node.folder / "cdi/test.json").write_text(json.dumps(CDI_SPEC))
    (node.folder / "hello").write_text("hello")
    containers = replace(node.config.containers, cdi_dirs=(str(node.folder / "cdi"),))
    node.start(replace(node.config, containers=containers))
    plugin: Recorder = node.plugin()
    return plugin


def run_pod(node: Node) -> str:
    config = node.pod_config()
    config.annotations["test/dir"] = str(node.folder)
    config.annotations["test/cgroup"] = f"/{node.machine.name}"
    return node.engine.pods.run(config)


def run_case(node: Node, pod: str, name: str, case: Case | None) -> EngineView:
    made = node.create(
        pod,
        name,
        envs=[pb.KeyValue(key="OF_POD", value=b"old")],
        annotations={"of-container": "1"},
        linux=pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(memory_limit_in_bytes=64 * MIB)),
    )
    view = EngineView(node, made, node.folder)
    if case is None or case.start:
        node.engine.containers.start(made)
        command = Path(f"/proc/{view.pid}/cmdline")
        node.wait_for(lambda: b"init" not in command.read_bytes(), "the container's own process")
    return view


def not_applied(view: EngineView, seen: str, unadjusted: str) -> str:
    """The outcome of what has not the effect that was asked for."""
    adaptation = view.node.engine.nri.adaptation
    assert adaptation is not None and adaptation.provenance is not None
    notes = [text for _, text in adaptation.provenance.explain(view.id).notes]
    told = any(" unsupported: " in text for text in notes)
    return f"read back {seen!r}" if seen != unadjusted else engine_matrix.LEFT_OUT if told else IGNORED


def test_each_adjustment_has_the_effect_that_the_table_says(node: Node) -> None:
    plugin = started(node)
    pod = run_pod(node)
    plain = run_case(node, pod, "plain", None)
    outcomes = {}
    for name, case in CASES.items():
        unadjusted = case.read(plain) if not name.endswith("poststop") else "none"
        assert unadjusted != case.effect, f"{name}: the case shows nothing"
        plugin.on["create"] = lambda about, _, case=case: case.adjust(about)
        try:
            view = run_case(node, pod, name, case)
            seen = case.read(view)
            outcomes[name] = APPLIED if seen == case.effect else not_applied(view, seen, unadjusted)
        except NriError as error:
            outcomes[name] = f"refused: {error}"
        for path in node.folder.glob("hook-*"):
            path.unlink()
    expected = {name: engine_matrix.ADJUSTMENTS.get(name, APPLIED) for name in CASES}
    differ = {name: cell for name, cell in outcomes.items() if not cell.startswith(expected[name])}
    assert differ == {}, {name: expected[name] for name in differ}


def test_each_update_by_a_plugin_has_the_effect_that_the_table_says(node: Node) -> None:
    started(node)
    made = EngineView(node, node.run(run_pod(node)), node.folder)
    outcomes = {}
    for setter, (value, controller, file, v2_file, text) in SETTERS.items():
        update = nri.Update(made.id)
        getattr(update, setter)(value)
        (result,) = node.engine.nri.update(unsolicited(update.message))
        seen = made.cgroup(controller, file, v2_file).split()[0]
        outcomes[setter] = APPLIED if seen == text else IGNORED
        assert (outcomes[setter] == APPLIED) == (not result.failed), f"{setter}: {result.fields}"
    assert outcomes == engine_matrix.UPDATES


class Declares(Recorder):
    """A plugin that says what is to happen if it is late, and is told how long it may take."""

    failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)


def test_a_plugin_is_told_the_timeout_and_what_it_declares_of_failures_is_heeded(node: Node) -> None:
    limit_s = round(1.9 * PATIENCE, 3)
    node.start(replace(node.config, nri=replace(node.config.nri, plugin_request_timeout=limit_s)))
    plugin = node.plugin(Declares())
    assert plugin.runtime.request_timeout_s == limit_s
    pod = node.pod()
    refused = threading.Event()
    plugin.on["create"] = lambda *_: refused.wait(60)
    with pytest.raises(NriError, match="10-recorder"):
        node.create(pod, "late")
    del plugin.on["create"]
    refused.set()
    node.wait_for(lambda: plugin.events[-1] == ("remove", "late"), "the end of the late one")
    node.create(pod, "next")
    assert plugin.of("next") == ["create", "post_create"], "it is still connected"


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 0\n", "#!/nowhere/interpreter\n", "#!/bin/sh\nexec /bin/sleep 60\n"])
def test_the_engine_starts_beside_a_pre_installed_plugin_that_cannot_start(node: Node, text: str) -> None:
    plugins = Path(node.config.nri.plugin_path)
    plugins.mkdir(mode=0o755)
    (plugins / "05-pre").write_text(text)
    (plugins / "05-pre").chmod(0o755)
    nri_config = replace(node.config.nri, plugin_registration_timeout=1.0)
    node.start(replace(node.config, nri=nri_config))
    plugin = node.plugin()
    node.run(node.pod())
    assert plugin.of("c") == ["create", "post_create", "start", "post_start"], "others are asked, and containers run"


def test_a_state_that_is_more_than_a_message_takes_comes_in_parts(node: Node) -> None:
    node.start(replace(node.config, dry=True))
    pod = node.pod()
    for number in range(80):
        node.create(pod, f"c{number}", annotations={"padding": "x" * 60_000})
    plugin: Recorder = node.plugin()
    ((_, containers),) = plugin.synchronized
    assert len(containers) == 80


def test_the_column_names_tests_that_there_are() -> None:
    assert set(engine_matrix.FACTS) == set(FACTS)
    for _, test in engine_matrix.FACTS.values():
        assert (Path(__file__).resolve().parents[2] / test).exists()
