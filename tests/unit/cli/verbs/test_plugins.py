"""`nri plugins` lists and describes plugins."""

from __future__ import annotations

import json
from importlib.metadata import entry_points

import pytest

BUNDLED = sorted(entry.name for entry in entry_points(group="nri.plugins") if entry.value.startswith("nri.plugins."))


def test_the_list_is_a_table_with_descriptions_and_annotations(nri) -> None:
    result = nri("plugins", "list")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].split("  ")[0] == "NAME"
    assert "ANNOTATIONS" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == BUNDLED
    assert "Log a line for each event, without changes" in next(line for line in lines if line.startswith("template"))


def test_quiet_prints_only_names(nri) -> None:
    assert nri("plugins", "list", "-q").stdout.split() == BUNDLED


def test_json_has_all_details(nri) -> None:
    rows = {row["name"]: row for row in json.loads(nri("plugins", "list", "-o", "json").stdout)}
    assert list(rows) == BUNDLED
    template = rows["template"]
    assert template["class"] == "nri.plugins.template.plugin:Template"
    (key,) = template["configuration"]
    assert key == {
        "key": "cfgParam1", "kind": "string", "default": "", "meaning": "a parameter; it is logged", "needed": False
    }  # fmt: skip
    assert "CreateContainer" in template["events"]
    assert template == json.loads(nri("plugins", "show", "template", "-o", "json").stdout)


def test_a_plugin_is_shown_with_its_start_commands(nri) -> None:
    result = nri("plugins", "show", "template")
    assert result.returncode == 0
    for line in (
        "nri run template --idx NN",
        "nri enable template --idx NN",
        "--cfg-param1 TEXT",
        "cfgParam1  string: a parameter; it is logged\n",
    ):
        assert line in result.stdout


def test_a_plugin_with_fixed_indices_is_shown_without_unsupported_commands(nri) -> None:
    shown = nri("plugins", "show", "differ").stdout
    assert "nri run differ  as a separate process, until it is stopped; a runtime cannot launch it" in shown
    assert "nri enable" not in shown and "--idx" not in shown


@pytest.mark.parametrize(
    ("name", "step"), [("tempalte", "; did you mean template?"), ("zzz", f". Plugins: {', '.join(BUNDLED)}")]
)
def test_an_unknown_name_is_an_error_with_a_suggestion(nri, name: str, step: str) -> None:
    result = nri("plugins", "show", name)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: {name}: no plugin of this name exists{step}\n"
