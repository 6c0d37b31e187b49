"""`nri spec` as a filter: inputs, outputs and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SPEC: dict[str, Any] = {
    "ociVersion": "1.2.0",
    "process": {"args": ["sh"], "cwd": "/", "env": ["A=1"]},
    "root": {"path": "rootfs"},
    "vendor": {"kept": True},
}
ADJUST = {"env": [{"key": "A", "value": "2"}], "linux": {"resources": {"pids": {"limit": "-1"}}}}


@pytest.fixture
def files(tmp_path: Path):
    """Write files of JSON; gives their paths."""

    def write(**contents: Any) -> list[str]:
        paths = []
        for name, content in contents.items():
            path = tmp_path / f"{name}.json"
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            paths.append(str(path))
        return paths

    return write


def test_an_adjustment_is_applied_and_the_rest_is_kept(nri, files) -> None:
    adjust, spec = files(adjust=ADJUST, spec=SPEC)
    result = nri("spec", "apply", adjust, spec)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        **SPEC,
        "process": {**SPEC["process"], "env": ["A=2"]},
        "linux": {"resources": {"pids": {"limit": -1}}},
    }
    assert result.stderr == ""


def test_each_argument_can_be_standard_input(nri, files) -> None:
    adjust, spec = files(adjust=ADJUST, spec=SPEC)
    first = nri("spec", "apply", adjust, stdin=json.dumps(SPEC))
    second = nri("spec", "apply", "-", spec, stdin=json.dumps(ADJUST))
    assert first.stdout == second.stdout != ""
    result = nri("spec", "apply", "-", stdin="{}")
    assert (result.returncode, result.stdout) == (2, "")
    assert "standard input cannot be both the adjustment and the spec" in result.stderr


def test_replies_with_an_adjustment_and_yaml_are_accepted(nri, files) -> None:
    reply, spec = files(reply={"adjust": ADJUST, "update": []}, spec=SPEC)
    assert json.loads(nri("spec", "apply", reply, spec).stdout)["process"]["env"] == ["A=2"]
    result = nri("spec", "apply", "-", spec, "-o", "yaml", stdin="args: [sleep, '1']")
    assert "- sleep\n" in result.stdout


def test_reference_mode_can_be_selected(nri, files) -> None:
    adjust, spec = files(adjust=ADJUST, spec=SPEC)
    result = nri("spec", "apply", "--reference", adjust, spec)
    assert json.loads(result.stdout)["linux"] == {"resources": {"pids": {}}}


def test_an_update_returns_the_runtimes_resources(nri, files) -> None:
    (spec,) = files(spec=SPEC)
    for update in ({"pids": {"limit": "5"}}, {"container_id": "c", "linux": {"resources": {"pids": {"limit": "5"}}}}):
        result = nri("spec", "apply", "--update", "-", spec, stdin=json.dumps(update))
        assert json.loads(result.stdout) == {"pids": {"limit": 5}}, result.stderr


def test_classes_and_devices_are_read_from_files(nri, files, tmp_path) -> None:
    device = {"name": "1", "containerEdits": {"env": ["DEVICE=1"]}}
    blockio, rdt, spec, _ = files(
        blockio={"Classes": {"slow": [{"Weight": 20}]}},
        rdt={"classes": {"gold": {"closID": "g"}}},
        spec=SPEC,
        device={"cdiVersion": "0.5.0", "kind": "v/c", "devices": [device]},
    )
    resources = {"blockio_class": {"value": "slow"}, "rdt_class": {"value": "gold"}}
    requested = {"CDI_devices": [{"name": "v/c=1"}], "linux": {"resources": resources}}
    options = ("--blockio", blockio, "--rdt", rdt, "--cdi-dir", str(tmp_path))
    result = nri("spec", "apply", *options, "-", spec, stdin=json.dumps(requested))
    document = json.loads(result.stdout)
    assert document["process"]["env"] == ["A=1", "DEVICE=1"]
    assert document["linux"] == {"resources": {"blockIO": {"weight": 20}}, "intelRdt": {"closID": "g"}}


@pytest.mark.parametrize(
    ("adjust", "spec", "code", "text"),
    [
        ({"linux": {"namespaces": [{"type": "x"}]}}, SPEC, 1, 'adjust.json: unrecognized namespace "x"'),
        ({}, [], 2, "spec.json: not a spec: expected a JSON object, not []"),
        ({"nothing": 1}, SPEC, 2, "adjust.json: not a ContainerAdjustment:"),
        ([], SPEC, 2, "adjust.json: not a ContainerAdjustment: expected a JSON object, not []"),
        ({}, '{"x":' * 200 + "1" + "}" * 200, 2, "spec.json:1: nested deeper than 100 levels"),
        ({}, "{", 2, "spec.json:1: not valid JSON"),
        ({"args": ["x"]}, {"process": 5}, 1, "spec.json: the spec's process is not an object: 5"),
    ],
)
def test_an_error_is_one_line(nri, files, adjust: Any, spec: Any, code: int, text: str) -> None:
    result = nri("spec", "apply", *files(adjust=adjust, spec=spec))
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_differences_are_lines_and_exit_with_5(nri, files) -> None:
    old, new = files(old=SPEC, new={**SPEC, "hostname": "h"})
    result = nri("spec", "diff", old, new)
    assert (result.returncode, result.stdout) == (5, '+ hostname: "h"\n')
    assert nri("spec", "diff", old, old).returncode == 0
    assert nri("spec", "diff", "-q", old, new).stdout == ""
    result = nri("spec", "diff", old, "-", "-o", "json", stdin=json.dumps({**SPEC, "hostname": "h"}))
    assert json.loads(result.stdout) == [{"path": "hostname", "kind": "added", "old": None, "new": "h"}]
    assert nri("spec", "diff", "-", "-").returncode == 2


def test_control_characters_do_not_reach_the_terminal(nri, files) -> None:
    old, new = files(old=SPEC, new={**SPEC, "annotations": {"a\x1b[2J": "x"}})
    assert "\x1b" not in nri("spec", "diff", old, new, "--color", "never").stdout


def test_problems_of_specs_are_reported_by_file(nri, files) -> None:
    good, bad = files(good=SPEC, bad={**SPEC, "hostname": 5})
    result = nri("spec", "validate", good)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "1 valid spec\n")
    result = nri("spec", "validate", good, bad)
    assert (result.returncode, result.stdout) == (1, f"{bad}: hostname: expected a string, not 5\n")
    assert nri("spec", "validate", "-q", good, bad).stdout == f"{bad}\n"
    result = nri("spec", "validate", "-o", "json", stdin=json.dumps({**SPEC, "hostname": 5}))
    assert json.loads(result.stdout) == [{"file": "-", "path": "hostname", "reason": "expected a string, not 5"}]
    result = nri("spec", "validate", stdin="[]")
    assert (result.returncode, result.stdout) == (1, "standard input: expected an object, not []\n")


def test_an_empty_adjustment_file_is_an_error(nri, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    result = nri("spec", "apply", str(tmp_path / "empty.json"), "-", stdin="{}")
    assert result.returncode == 2
    assert "empty.json: the file is empty; an adjustment that changes nothing is {}" in result.stderr
