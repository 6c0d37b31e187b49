"""The systemd units of bundled plugins: valid and well restricted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.rendered import DEPLOY, NEEDS, PLUGINS
from tests.support.commands import run
from tests.support.needs import need_tool
from tools.deployment.unit import CLOSED, VENV

#: Exposure that systemd reports for the unit of a plugin that needs only the socket, from 0 (none) to 10.
WELL_LOCKED_UP = 2.0


@pytest.fixture
def unit(name: str, tmp_path: Path) -> Path:
    """A unit with an existing program: systemd checks it."""
    text = (DEPLOY / f"systemd/nri-plugin-{name}.service").read_text()
    path = tmp_path / f"nri-plugin-{name}.service"
    path.write_text(text.replace(f"{VENV}/bin/python", "/bin/true"))
    return path


@pytest.mark.parametrize("name", PLUGINS)
def test_systemd_analyze_verifies_the_unit(unit: Path) -> None:
    need_tool("systemd-analyze")
    assert run(["systemd-analyze", "verify", "--man=no", unit]) == ""


@pytest.mark.parametrize("name", PLUGINS)
def test_systemd_analyze_rates_the_unit_as_safe(unit: Path, name: str) -> None:
    need_tool("systemd-analyze")
    output = run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit])
    level = re.search(r"Overall exposure level for .*?: ([\d.]+)", output)
    assert level, output
    assert float(level[1]) <= (4.0 if NEEDS[name].unit else WELL_LOCKED_UP), output


@pytest.mark.parametrize("name", PLUGINS)
def test_a_unit_grants_only_the_rights_of_the_table(name: str) -> None:
    lines = (DEPLOY / f"systemd/nri-plugin-{name}.service").read_text().splitlines()
    opened = {line.key for line in NEEDS[name].unit}
    for key, value in CLOSED.items():
        assert (f"{key}={value}" in lines) is (key not in opened)
    for line in NEEDS[name].unit:
        assert lines[lines.index(f"{line.key}={line.value}") - 1] == f"# {line.why}"


@pytest.mark.parametrize("name", PLUGINS)
def test_a_unit_starts_the_plugin_with_the_arguments_of_its_image(name: str) -> None:
    text = (DEPLOY / f"systemd/nri-plugin-{name}.service").read_text()
    words = " ".join((*NEEDS[name].args, *NEEDS[name].unit_args))
    assert f"\nExecStart={VENV}/bin/python -I -m nri.plugins {name} {words} $NRI_PLUGIN_ARGS\n" in text
    assert "\nType=notify\n" in text
