"""`topology-aware` as a program, with a configuration file that changes while it runs."""

from __future__ import annotations

import json
from pathlib import Path

from nri.testing import FakeRuntime
from tests.support.plugin_program import plugin_program
from tests.unit.plugins.placement.placing import ask, config, cpus, create, pod


def test_it_pins_and_heeds_its_file_and_a_mistake_in_it_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps({"kind": "TopologyAwarePolicy", "spec": json.loads(config(tmp_path))}))
    words = ["-idx", "90", "-socket-path", str(tmp_path / "s"), "-config", str(file)]
    with FakeRuntime(socket_path=str(tmp_path / "s")) as runtime:
        with plugin_program(tmp_path, "-m", "nri.plugins.topology_aware.plugin", *words) as program:
            assert runtime.adaptation.ready(["90-topology-aware"], 20), runtime.plugins
            create(runtime, pod("a"), ask("a", 2000))
            assert cpus(runtime) == {"a": "4-5"}
            file.write_text(config(tmp_path, reservedResources={"cpu": "cpuset:99"}))
            program.wait_text(f"configuration not changed: {file}: reservedResources.cpu: 99 are not among")
            file.write_text(config(tmp_path, pinCpu=False))
            program.wait_text(f'{file}:1: pinCpu: unknown key (did you mean "pinCPU"?)')
            file.write_text(config(tmp_path, reservedResources={"cpu": "cpuset:0,4"}))
            program.wait_text("configuration read again")
            create(runtime, pod("b"), ask("b", 1000))
            assert not {"4"} & set(cpus(runtime).values())


def test_flags_come_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(config(tmp_path, stateDir="/nowhere/else"))
    words = ["-idx", "90", "-socket-path", str(tmp_path / "s"), "-config", str(tmp_path / "policy.json")]
    with FakeRuntime(socket_path=str(tmp_path / "s")) as runtime:
        state = str(tmp_path / "kept")
        with plugin_program(tmp_path, "-m", "nri.plugins.topology_aware.plugin", *words, "--state-dir", state):
            assert runtime.adaptation.ready(["90-topology-aware"], 20), runtime.plugins
            create(runtime, pod("a"), ask("a", 2000))
    assert "exclusive" in (tmp_path / "kept/topology-aware.json").read_text()
