"""Our sample plugins give the captured answers of the Go plugins, except for the listed differences.

The answers of the Go plugins are in tests/data/plugins; the README there describes the capture. A listed case with
equal answers is an error too: the list is then out of date. docs/deviations-plugins.md describes the differences.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.plugins.device_injector.plugin import DeviceInjector
from nri.plugins.logger.plugin import FLAGS, Logger
from nri.plugins.memory_policy.plugin import INJECTED, MemoryPolicyPlugin
from nri.plugins.memory_qos.plugin import MemoryQos
from nri.plugins.memtierd.plugin import Memtierd
from nri.plugins.rdt.plugin import Rdt
from nri.plugins.sgx_epc.plugin import SgxEpc
from nri.plugins.ulimit_adjuster.plugin import UlimitAdjuster
from nri.plugins.writable_cgroups.plugin import WritableCgroups
from nri.stub.program.options import parse
from tests.support.go_plugins import REFUSED, Asked, Row, captured
from tests.support.placement import guest, write_machine
from tests.support.sample_configs import CONFIGS

ANNOTATE = ("-add-annotation ann", "-set-annotation ann", "-add-annotation ann -set-annotation ann")

#: Plugin -> difference, in words -> the cases that show it.
DEVIATIONS: dict[str, dict[str, list[str]]] = {
    "device-injector": {
        "a value that no runtime can use is refused": [
            "devices: negative major",
            "devices: no path", "devices: no type", "devices: no major", "devices: relative path",
            "devices: marked path", "devices: unknown type", "devices: number path", "devices: null item",
            "devices: empty item", "cdi: no name", "cdi: no vendor", "cdi: number", "cdi: null item", "cdi: empty item",
            "mounts: option null", "mounts: no source", "mounts: source empty", "mounts: bind without source",
            "mounts: rbind without source", "mounts: no destination", "mounts: relative destination",
            "mounts: marked destination", "mounts: null item", "io: priority 8", "io: priority negative",
            "scheduler: nice 20", "scheduler: priority 100", "scheduler: priority negative", "net: no host",
            "net: marked", "net: null item", "sysctl: null value", "sysctl: marked", "sysctl: empty key",
            "memory: bad nodes",
        ],
        "an unknown word is refused": [
            "io: unknown class", "io: no class", "io: empty table", "io: number class", "scheduler: unknown policy",
            "scheduler: no policy", "scheduler: empty table", "scheduler: unknown flag",
        ],
        "that is given twice is refused": [
            "devices: twice", "devices: key twice", "devices: key twice by case", "cdi: twice", "mounts: twice",
            "net: twice", "net: name twice", "sysctl: twice",
        ],
        "names are accepted in any case and without prefix": [
            "io: short class", "io: lower class", "scheduler: short policy", "memory: short mode", "memory: short flag",
        ],
        "keys are accepted with and without _ and -": [
            "devices: camel keys", "devices: dashed keys", "net: snake keys",
        ],
        "YAML 1.2 applies": [
            "devices: mode quoted", "devices: merge key", "devices: type yes",
            "devices: leading zero major", "devices: underscore major", "devices: two documents",
            "devices: unknown tag", "net: lower case keys",
        ],
        "texts are used as written": [
            "mounts: option number", "sysctl: float", "sysctl: octal", "sysctl: hex", "sysctl: yes", "sysctl: exponent",
        ],
        "an empty value requests nothing": ["memory: empty", "memory: null"],
    },
    "ulimit-adjuster": {
        "that is given twice is refused": ["twice"],
        "YAML 1.2 applies": ["underscore", "octal"],
    },
    "rdt": {
        "a value that no runtime can use is refused": [
            "closid: empty", "closid: slash", "closid: up", "closid: info", "closid: line end", "schemata: empty",
            "schemata: trailing comma", "schemata: no colon", "schemata: no value", "schemata: words",
            "schemata: percent",
        ],
    },
    "writable-cgroups": {
        "an unknown word is refused": [
            "value 'True'", "value 'TRUE'", "value '1'", "value 'yes'", "value ' true'", "value 'true '",
        ],
    },
    "memory-qos": {
        "an empty value requests nothing": ["empty class", "own class empty"],
        "a container without a memory limit has no class": ["limit of nothing", "unlimited"],
    },
    "memory-policy": {
        "a value that no runtime can use is refused": [
            "mode missing", "nodes missing", "nodes empty", "nodes 'max-dist:-1', cpus '0', mems ''",
            "nodes 'max-dist:0', cpus '0', mems ''", "nodes 'max-dist:9', cpus '0', mems ''",
            "nodes '7', cpus '', mems ''", "nodes 'cpu-nodes', cpus '99', mems ''",
        ],
        "modes without nodes need no nodes, and are refused with nodes": [
            "default without nodes", "local without nodes", "local with nodes",
        ],
        "node lists have the kernel's form": ["nodes '0 ', cpus '', mems ''", "nodes '0, 1', cpus '', mems ''"],
    },
    "memtierd": {},
    "sgx-epc": {},
    "logger": {
        "a removal also removes what the same answer has set": [
            f"flags {before}-add-env VAR -set-env VAR{after}"
            for before in ("", *(f"{flags} " for flags in ANNOTATE))
            for after in ("", ", nothing there before")
        ],
    },
}  # fmt: skip

PLUGINS: dict[str, type[nri.Plugin]] = {
    "device-injector": DeviceInjector,
    "ulimit-adjuster": UlimitAdjuster,
    "rdt": Rdt,
    "memory-qos": MemoryQos,
    "memory-policy": MemoryPolicyPlugin,
    "memtierd": Memtierd,
    "sgx-epc": SgxEpc,
}


def compare(name: str, rows: list[tuple[Row, Any]]) -> None:
    """Compare each of our answers with the captured one: the cases that differ must be exactly the listed ones."""
    listed = {case for cases in DEVIATIONS[name].values() for case in cases}
    differing = {row.case: f"Go: {row.answer}\nwe: {near_end}" for row, near_end in rows if near_end != row.answer}
    assert set(differing) <= listed, {case: output for case, output in differing.items() if case not in listed}
    assert listed <= set(differing), f"listed, but equal: {sorted(listed - set(differing))}"


def configuration(name: str, folder: Path) -> str:
    """What the Go plugin was configured with, and where the machine is that it saw."""
    config = CONFIGS.get(name, "")
    if name == "memory-policy":
        (folder / "program").write_text("not run here")
        config += f"hostRoot: {write_machine(folder / 'machine', guest())}\nmpolset: {folder / 'program'}\n"
    if name == "memtierd":
        config += f"cgroupsDir: {folder}\nrunDir: {folder / 'run'}\n"
    return config


@pytest.mark.parametrize("name", PLUGINS)
def test_every_answer_equals_the_go_plugins(name: str, tmp_path: Path) -> None:
    with Asked(PLUGINS[name](), configuration(name, tmp_path)) as requested:
        compare(name, [(_without_propagation(row), requested.answer(row)) for row in captured(name)])


def _without_propagation(row: Row) -> Row:
    """A row without the propagation of mpolset's mount, which our plugin leaves out."""
    for mount in row.answer.adjust.mounts if isinstance(row.answer, m.CreateContainerResponse) else ():
        if mount.destination == INJECTED:
            mount.options.remove("rslave")
    return row


def test_every_answer_of_writable_cgroups_equals_the_go_plugins(tmp_path: Path) -> None:
    rows = captured("writable-cgroups")
    answers = []
    for number, setting in enumerate({row.setting: None for row in rows}):
        mounts = tmp_path / f"mountinfo{number}"
        if setting is not None:
            mounts.write_text(setting)
        with Asked(WritableCgroups(), f"hostMountFile: {mounts}") as requested:
            answers += [(row, requested.answer(row)) for row in rows if row.setting == setting]
    compare("writable-cgroups", answers)


def test_every_answer_of_logger_equals_the_go_plugins() -> None:
    answers = []
    for row in captured("logger"):
        plugin_flags = parse(["-idx", "10", *row.setting], {}, "logger", "logger", FLAGS).own
        config = json.dumps({FLAGS[flag].field: values[-1] for flag, values in plugin_flags.items()})
        with Asked(Logger(), config) as requested:
            answers.append((row, requested.answer(row)))
    compare("logger", answers)


@pytest.mark.parametrize("name", [*PLUGINS, "writable-cgroups"])
def test_captured_answers_include_refusals_and_adjustments(name: str) -> None:
    answers = [row.answer for row in captured(name)]
    assert REFUSED in answers
    assert any(answer != REFUSED and answer.HasField("adjust") for answer in answers if not isinstance(answer, str))


def test_every_listed_difference_has_a_reason_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "deviations-plugins.md").read_text().lower()
    missing = [words for rows in DEVIATIONS.values() for words in rows if words.lower() not in page]
    assert not missing
