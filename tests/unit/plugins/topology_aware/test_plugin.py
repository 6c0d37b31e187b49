"""`topology-aware` as a program, with a configuration file that changes while it runs."""

from __future__ import annotations

import json
from pathlib import Path

from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.testing import FakeRuntime
from tests.support.placement import with_memory, write_machine
from tests.support.plugin_program import plugin_program
from tests.support.waiting import wait_for
from tests.unit.placement.placing import ask, config, cpus, create, pod, started


def test_a_changed_file_applies_and_an_invalid_file_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps({"kind": "TopologyAwarePolicy", "spec": json.loads(config(tmp_path))}))
    words = ["-idx", "90", "-socket-path", str(tmp_path / "s"), "-config", str(file)]
    with FakeRuntime(socket_path=str(tmp_path / "s")) as runtime:
        with plugin_program(tmp_path, "-m", "nri.plugins.topology_aware.plugin", *words) as program:
            assert runtime.adaptation.ready(["90-topology-aware"], 20), runtime.plugins
            create(runtime, pod("a"), ask("a", 2000))
            assert cpus(runtime) == {"a": "4-5"}
            file.write_text(config(tmp_path, reservedResources={"cpu": "cpuset:99"}))
            program.wait_text(
                f"configuration not changed: {file}:1: reservedResources.cpu: cpuset:99: 99 are not among"
            )
            file.write_text(config(tmp_path, pinCpu=False))
            program.wait_text(f'{file}:1: pinCpu: unknown key (did you mean "pinCPU"?)')
            file.write_text(config(tmp_path, reservedResources={"cpu": "cpuset:0,4"}))
            program.wait_text("configuration read again")
            create(runtime, pod("b"), ask("b", 1000))
            assert not {"4"} & set(cpus(runtime).values())


def test_flags_override_the_file(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(config(tmp_path, stateDir="/nowhere/else"))
    words = ["-idx", "90", "-socket-path", str(tmp_path / "s"), "-config", str(tmp_path / "policy.json")]
    with FakeRuntime(socket_path=str(tmp_path / "s")) as runtime:
        state = str(tmp_path / "kept")
        with plugin_program(tmp_path, "-m", "nri.plugins.topology_aware.plugin", *words, "--state-dir", state):
            assert runtime.adaptation.ready(["90-topology-aware"], 20), runtime.plugins
            create(runtime, pod("a"), ask("a", 2000))
    assert "exclusive" in (tmp_path / "kept/topology-aware.json").read_text()


def test_a_container_gets_dram_when_its_cold_start_is_over(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    TopologyAwarePlugin().warm()  # it takes no part yet
    write_machine(tmp_path, with_memory("pmem", 16, True))
    plugin = started(nri_runtime, tmp_path)
    for name, duration in (("long", "1h"), ("short", "1ms")):
        create(nri_runtime, pod(name, cold_start=f"{{duration: {duration}}}"), ask(name, 500))
    mems = {value.name: value.linux.resources.cpu.mems for value in nri_runtime.containers.values()}
    assert set(mems.values()) <= {"4", "5"}

    def warm() -> bool:
        plugin.warm()
        return [value.container_id for value in nri_runtime.updates] == [
            value.id for value in nri_runtime.containers.values() if value.name == "short"
        ]

    wait_for(warm, "an update of the short one alone")
    assert list(plugin.present.cold_starts().values()) == [3600.0]


def test_an_invalid_new_cold_start_ends_only_that_cold_start(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    write_machine(tmp_path, with_memory("pmem", 16, True))
    started(nri_runtime, tmp_path)
    for name in ("odd", "short"):
        create(nri_runtime, pod(name, cold_start="{duration: 1h}"), ask(name, 500))
    nri_runtime.disconnect()
    for value in nri_runtime.pods.values():
        words = "soon" if value.name == "odd" else "{duration: 1ms}"
        value.annotations["cold-start.resource-policy.nri.io"] = words
    plugin = started(nri_runtime, tmp_path)

    def all_warm() -> bool:
        plugin.warm()
        return len(nri_runtime.updates) == 2 and plugin.present.cold_starts() == {}

    wait_for(all_warm, lambda: f"both have DRAM: {plugin.present.pins}")
