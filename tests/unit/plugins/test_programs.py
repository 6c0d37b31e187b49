"""The injecting plugins as programs, with the flags that manifests of the Go plugins give them."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.plugin_program import plugin_program
from tests.support.pruned import pruned

CONFIGS = {
    "qos.yaml": "unifiedannotations: [memory.high]",
    "policy.yaml": "classes: [{name: near, policy: {mode: MPOL_LOCAL}}]",
}
MOUNT = m.Mount(destination="/sys/fs/cgroup", type="cgroup", source="cgroup", options=["ro"])
DELEGATED = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
#: Module, flags ({} is the folder of the test), the name it takes, an annotation, and what comes of it.
PROGRAMS = [
    (
        "device_injector", ["-idx", "10", "-socket-path", "{}/s", "-verbose"], "10-device-injector",
        {"sysctl.noderesource.dev": "{a.b: 1}"}, nri.Adjustment().set_sysctl("a.b", "1"),
    ),
    (
        "ulimit_adjuster", ["-name=limits", "-idx=20", "-socket={}/s"], "20-limits",
        {"ulimits.noderesource.dev/container.c0": "[{type: cpu, hard: 1}]"},
        nri.Adjustment().add_rlimit("RLIMIT_CPU", 1, 0),
    ),
    (
        "rdt", ["--idx", "30", "--socket-path", "{}/s"], "30-rdt",
        {"closid.rdt.noderesource.dev/container.c0": "gold"}, nri.Adjustment().set_rdt_clos_id("gold"),
    ),
    (
        "writable_cgroups", ["-idx", "40", "-socket-path", "{}/s", "-host-mount-file", "{}/mountinfo"],
        "40-writable-cgroups", {"writable-cgroups.noderesource.dev": "true"},
        nri.Adjustment().add_mount("/sys/fs/cgroup", "cgroup", "cgroup", ["rw"]),
    ),
    (
        "sgx_epc", ["-idx", "50", "-verbose", "-socket", "{}/s"], "50-sgx-epc", {"epc-limit.nri.io": "1"},
        nri.Adjustment().add_unified("misc.max", "sgx_epc 1"),
    ),
    (
        "memory_qos", ["-idx", "51", "-v", "-config", "{}/qos.yaml", "-socket", "{}/s"], "51-memory-qos",
        {"memory.high.memory-qos.nri.io": "max"}, nri.Adjustment().add_unified("memory.high", "max"),
    ),
    (
        "memory_policy", ["-idx", "95", "-v", "--config", "{}/policy.yaml", "-socket", "{}/s"], "95-memory-policy",
        {"class.memory-policy.nri.io": "near"}, nri.Adjustment().set_memory_policy("MPOL_LOCAL"),
    ),
    (
        "memtierd", ["-idx", "52", "--run-dir", "{}/run", "--cgroups-dir", "{}", "-socket", "{}/s"], "52-memtierd",
        {"memory.high.memtierd.nri.io/c0": "7"}, nri.Adjustment().add_unified("memory.high", "7"),
    ),
    ("resctrl_mon", ["--idx", "53", "-v", "-socket", "{}/s"], "53-resctrl-mon", {}, nri.Adjustment()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "flags", "label", "annotations", "expected"), PROGRAMS, ids=[row[0] for row in PROGRAMS]
)
def test_a_plugin_runs_with_the_flags_of_the_go_plugin(
    tmp_path: Path, module: str, flags: list[str], label: str, annotations: dict[str, str], expected: nri.Adjustment
) -> None:
    (tmp_path / "mountinfo").write_text(DELEGATED)
    for name, text in CONFIGS.items():
        (tmp_path / name).write_text(text)
    words = [flag.format(tmp_path) for flag in flags]
    with FakeRuntime(socket_path=str(tmp_path / "s")) as runtime:
        with plugin_program(tmp_path, "-m", f"nri.plugins.{module}.plugin", *words):
            assert runtime.adaptation.ready([label], 20), runtime.plugins
            reply = runtime.create_container(make_pod(annotations=annotations), make_container("c0", mounts=[MOUNT]))
            assert pruned(reply.adjust) == expected


def test_the_validator_program_refuses_a_missing_required_plugin(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('required_plugins = ["topology"]\n')
    words = ["-idx", "00", "-socket-path", str(tmp_path / "s"), "-config", str(tmp_path / "c.toml")]
    with FakeRuntime(socket_path=str(tmp_path / "s")) as runtime:
        with plugin_program(tmp_path, "-m", "nri.plugins.default_validator.plugin", *words):
            assert runtime.adaptation.ready(["00-default-validator"], 20), runtime.plugins
            with pytest.raises(nri.ValidationRejected, match='required plugin "topology" not present'):
                runtime.create_container()


@pytest.mark.parametrize("module", ["topology_aware", "balloons"])
def test_the_help_of_a_placement_plugin_names_its_state_folder(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = find_spec(f"nri.plugins.{module}").submodule_search_locations[0] + "/plugin.py"
    monkeypatch.setattr(sys, "argv", [file, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(file, run_name="__main__")
    assert not ended.value.code and "--state-dir" in capsys.readouterr().out
