"""The engine's column of docs/reference/runtimes.md, cell by cell, with `nri conformance runtime` and plugins.

The outcome is measured first and then compared, so what stops working and what starts to work both fail.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import nri
from nri.conformance.fields import CASES, SETTERS
from nri.errors import NriError
from tests.engine.node import V2, Node, Recorder, unsolicited
from tests.engine.view import EngineView
from tests.real import engine_matrix
from tests.real.support_matrix import APPLIED, FACTS, IGNORED
from tests.real.test_conformance import Found, of, tried
from tests.support.needs import need_machine, need_root
from tools.runtimes.engine import Engine
from tools.runtimes.machine import PATIENCE

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def findings() -> Iterator[Found]:
    """The command's findings about a separate engine with a folder of CDI devices."""
    need_root()
    need_machine(not V2, "cgroups of version 1, with which the other columns were measured")
    engine = Engine(say=lambda _: None)
    try:
        devices = engine.run_dir / "cdi"
        devices.mkdir()
        engine.start()
        yield tried(engine, devices)
    finally:
        engine.close()


def test_nri_conformance_finds_the_adjustments_of_the_table(findings: Found) -> None:
    expected = {case.text: engine_matrix.ADJUSTMENTS.get(name, APPLIED) for name, case in CASES.items()}
    expected = {name: IGNORED if cell == engine_matrix.LEFT_OUT else cell for name, cell in expected.items()}
    cells = {name: cell.partition(":")[0] for name, cell in of(findings, "Adjustments").items()}
    assert cells == expected


def test_nri_conformance_finds_every_event_update_and_eviction(findings: Found) -> None:
    assert {*of(findings, "Events").values()} == {"yes"}
    assert {*of(findings, "Updates").values()} == {APPLIED}
    late = of(findings, "Late")
    assert late["late, with fail_request and keep_connected: the creation"] == "fails"
    assert late["late in Synchronize: a creation at the same time"] == "succeeds"
    assert of(findings, "Configure")[FACTS["split-sync"].name] == engine_matrix.FACTS["split-sync"][0]


def test_adjustments_that_cannot_be_applied_are_reported(node: Node) -> None:
    need_machine(not V2, "cgroups of version 1, with which the other columns were measured")
    plugin = node.plugin()
    pod = node.pod()
    for name in (name for name, cell in engine_matrix.ADJUSTMENTS.items() if cell == engine_matrix.LEFT_OUT):
        plugin.on["create"] = lambda about, _, case=CASES[name]: case.adjust(about)
        container_id = node.create(pod, name)
        adaptation = node.engine.nri.adaptation
        assert adaptation is not None and adaptation.provenance is not None
        explanation = adaptation.provenance.explain(container_id)
        assert explanation is not None and any(" unsupported: " in text for _, text in explanation.notes), name


def test_every_update_has_the_effect_of_the_table(node: Node) -> None:
    need_machine(not V2, "cgroups of version 1, with which the other columns were measured")
    node.plugin()
    container = EngineView(node, node.run(node.pod()), node.folder)
    outcomes = {}
    for setter, (value, controller, file, v2_file, text) in SETTERS.items():
        update = nri.Update(container.id)
        getattr(update, setter)(value)
        (result,) = node.engine.nri.update(unsolicited(update.message))
        number = container.cgroup(controller, file, v2_file).split()[0]
        outcomes[setter] = APPLIED if number == text else IGNORED
        assert (outcomes[setter] == APPLIED) == (not result.failed), f"{setter}: {result.fields}"
    assert outcomes == engine_matrix.UPDATES


class Declares(Recorder):
    """A plugin that declares a failure policy for its timeouts and receives the timeout."""

    failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)


def test_a_plugin_receives_the_timeout_and_its_failure_policy_is_applied(node: Node) -> None:
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
def test_the_engine_starts_despite_a_pre_installed_plugin_that_fails(node: Node, text: str) -> None:
    plugins = Path(node.config.nri.plugin_path)
    plugins.mkdir(mode=0o755)
    (plugins / "05-pre").write_text(text)
    (plugins / "05-pre").chmod(0o755)
    nri_config = replace(node.config.nri, plugin_registration_timeout=1.0)
    node.start(replace(node.config, nri=nri_config))
    plugin = node.plugin()
    node.run(node.pod())
    assert plugin.of("c") == ["create", "post_create", "start", "post_start"], "others are asked, and containers run"


def test_a_state_larger_than_a_message_is_sent_in_parts(node: Node) -> None:
    node.start(replace(node.config, dry=True))
    pod = node.pod()
    for number in range(80):
        node.create(pod, f"c{number}", annotations={"padding": "x" * 60_000})
    plugin: Recorder = node.plugin()
    ((_, containers),) = plugin.synchronized
    assert len(containers) == 80


def test_the_column_names_existing_tests() -> None:
    assert set(engine_matrix.FACTS) == set(FACTS)
    for _, test in engine_matrix.FACTS.values():
        assert (Path(__file__).resolve().parents[2] / test).exists()
