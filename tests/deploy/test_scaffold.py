"""The scaffold works as it is: its own tests pass, and systemd takes its unit."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.needs import need_module, need_tool


def test_the_projects_own_tests_pass(project: Path) -> None:
    output = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=project)
    assert "1 passed" in output


def test_the_project_passes_a_strict_type_check(project: Path) -> None:
    need_module("mypy")
    run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "pod_name.py"], cwd=project)


def test_the_plugin_explains_itself(project: Path) -> None:
    output = run([sys.executable, "pod_name.py", "--help"], cwd=project)
    assert "Tell every container which pod it runs in." in output
    assert "--idx" in output


@pytest.fixture
def unit(project: Path, tmp_path: Path) -> Path:
    """The unit as it would be installed, with a program that is there: systemd looks for it."""
    copied = Path(shutil.copy(project / "deploy/pod-name.service", tmp_path))
    text = copied.read_text()
    assert "ExecStart=/opt/pod-name/bin/pod-name --idx 10\n" in text
    copied.write_text(text.replace("/opt/pod-name/bin/pod-name", "/bin/true"))
    return copied


def test_systemd_takes_the_unit(unit: Path) -> None:
    need_tool("systemd-analyze")
    assert run(["systemd-analyze", "verify", "--man=no", unit]) == ""


def test_systemd_calls_the_unit_well_locked_up(unit: Path) -> None:
    need_tool("systemd-analyze")
    output = run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit])
    level = re.search(r"Overall exposure level for .*?: ([\d.]+)", output)
    assert level, output
    assert float(level[1]) <= 2.0, f"a plugin needs the runtime's socket and nothing else:\n{output}"
