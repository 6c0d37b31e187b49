"""Recorded settings of CRI-O 1.37, read by its own loader from 94 sets of files, compared with our reader's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nri.config.json_lines import read_json_lines
from nri.config.runtimes import crio
from tests.support.deviation_rows import deviation_rows
from tests.support.memory_tree import MemoryTree

CASES = Path(__file__).parent / "data" / "crio-config.jsonl.xz"
DEFAULTS = crio.read_tree(MemoryTree({crio.PATH: b""})).nri
#: Cases with another outcome on purpose, and the rows of the deviations.
DEVIATIONS = {
    "both cases two": "CRI-O, a key in two spellings",
    "toml 1.1 newline in inline": "CRI-O, TOML 1.1",
    "toml 1.1 escape": "CRI-O, TOML 1.1",
}


def difference(case: dict[str, Any]) -> str:
    reading = crio.read_tree(MemoryTree({path: text.encode() for path, text in case["files"].items()}))
    if "error" in case:
        return "" if reading.failure else f"CRI-O does not start: {case['error']}"
    if reading.failure:
        return f"CRI-O starts, but: {reading.failure}"
    settings = reading.nri or DEFAULTS
    # CRI-O keeps empty paths and timeouts of 0, and the NRI library replaces them by its defaults.
    values = {
        key: value if isinstance(value, (bool, list)) else value or getattr(DEFAULTS, key)
        for key, value in case["nri"].items()
    }
    return "; ".join(
        f"{key}: {getattr(settings, key)!r}, not {value!r}"
        for key, value in values.items()
        if getattr(settings, key) != (tuple(value) if isinstance(value, list) else value)
    )


def test_cri_o_reads_the_same_settings_from_each_recorded_set_of_files() -> None:
    cases = list(read_json_lines(CASES, lambda _: ""))
    differences = {case["name"]: line for case in cases if (line := difference(case))}
    assert {name: line for name, line in differences.items() if name not in DEVIATIONS} == {}
    assert (len(cases), set(differences)) == (94, set(DEVIATIONS))
    assert set(DEVIATIONS.values()) <= set(deviation_rows("Others"))
