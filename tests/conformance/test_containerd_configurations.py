"""Recorded verdicts of containerd 1.7.24, 2.1.9, 2.3.4 and 2.4.2 on 364 configurations, compared with our verdicts.

Each release got each configuration, for `config dump` and for a start. Recorded are whether the daemon started, NRI's
table, the lists of plugins, NRI's keys that were ignored, and whether NRI was on, ran, and had a socket.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from nri.config.duration import parse_duration
from nri.config.json_lines import read_json_lines
from nri.config.runtimes.containerd import judge, read_tree, rules_of
from nri.config.runtimes.containerd.judgement import SETTINGS, Judgement
from nri.config.runtimes.reading import Kind, RuntimeNri
from tests.support.memory_tree import MemoryTree

CASES = Path(__file__).parent / "data" / "containerd-config.jsonl.xz"
RELEASES = ("1.7.24", "2.1.9", "2.3.4", "2.4.2")
DEFAULTS = RuntimeNri("containerd")
PLUGIN = "io.containerd.nri.v1.nri"


def tree_of(case: dict[str, Any]) -> MemoryTree:
    files = {path: text.encode() for path, text in case.get("files", {}).items()}
    files |= {path: base64.b64decode(text) for path, text in case.get("files_base64", {}).items()}
    return MemoryTree(files, case.get("links"), case.get("folders", ()))


def expected_settings(table: dict[str, Any]) -> dict[str, Any]:
    """NRI's table as `config dump` prints it, as settings in force: an empty value means the default."""
    settings: dict[str, Any] = {}
    for key, field in SETTINGS.items():
        value = table[key]
        if key.startswith("disable"):
            settings[field] = not value
        elif key.endswith("timeout"):
            settings[field] = parse_duration(value) or getattr(DEFAULTS, field)
        else:
            settings[field] = value or getattr(DEFAULTS, field)
    return settings


def differences(case: dict[str, Any], release: str) -> list[object]:
    tree, expected = tree_of(case), case["expect"][release]
    rules = rules_of(release)
    assert rules is not None
    verdict = judge(tree, rules)
    if (verdict.failure is None) != expected["starts"]:
        return ["starts", expected["starts"], verdict.failure]
    if not expected["starts"]:
        return []
    mismatches: list[object] = []
    states = {"on": bool(verdict.nri.enabled), "runs": verdict.nri_runs,
              "socket": verdict.nri_runs and verdict.nri.connections}  # fmt: skip
    mismatches += [(name, state) for name, state in states.items() if expected[name] != state]
    if "nri" in expected:
        mismatches += _differences_of_dump(expected, verdict)
        ignored = {
            remark.where.rpartition(".")[2] if remark.kind is Kind.UNKNOWN_KEY else "default_validator"
            for remark in read_tree(tree, release).remarks
            if remark.kind in (Kind.UNKNOWN_KEY, Kind.NO_VALIDATOR) and PLUGIN in remark.where
        }
        if release != "1.7.24" and ignored != {key.rpartition(" ")[2] for key in expected["ignored"]}:
            mismatches.append(("ignored", ignored, expected["ignored"]))
    return mismatches


def _differences_of_dump(expected: dict[str, Any], verdict: Judgement) -> list[object]:
    mismatches: list[object] = []
    mismatches += [
        (key, getattr(verdict, key))
        for key in ("disabled_plugins", "required_plugins")
        if list(getattr(verdict, key)) != expected[key]
    ]
    if expected["nri"] is None:
        return mismatches
    for field, value in expected_settings(expected["nri"]).items():
        if getattr(verdict.nri, field) != pytest.approx(value):
            mismatches.append((field, getattr(verdict.nri, field), value))
    validator = {key: value for key, value in expected["nri"].get("default_validator", {}).items() if value}
    if {key: value for key, value in verdict.nri.validator.items() if value} != validator:
        mismatches.append(("validator", verdict.nri.validator, validator))
    return mismatches


@pytest.mark.parametrize("release", RELEASES)
def test_our_verdict_equals_containerds_in_every_recorded_case(release: str) -> None:
    cases = list(read_json_lines(CASES, lambda _: ""))
    wrong = {case["id"]: mismatches for case in cases if (mismatches := differences(case, release))}
    assert (len(cases), wrong) == (364, {})
