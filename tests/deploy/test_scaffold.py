"""The scaffold works without changes: its tests pass and its unit is valid."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.needs import need_module, need_tool

pytestmark = pytest.mark.timeout(400)  # environments are made, and packages downloaded


def test_the_projects_own_tests_pass(project: Path) -> None:
    output = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=project)
    assert "1 passed" in output


def test_the_project_passes_a_strict_type_check(project: Path) -> None:
    need_module("mypy")
    run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "pod_name.py", "tests"], cwd=project)


def test_the_plugins_help_shows_its_purpose_and_options(project: Path) -> None:
    output = run([sys.executable, "pod_name.py", "--help"], cwd=project)
    assert "Tell every container which pod it runs in." in output
    assert "--idx" in output


@pytest.fixture
def unit(project: Path, tmp_path: Path) -> Path:
    """The unit as it would be installed, with an existing program: systemd checks it."""
    copied = Path(shutil.copy(project / "deploy/pod-name.service", tmp_path))
    text = copied.read_text()
    assert "ExecStart=/opt/pod-name/bin/pod-name --idx 10\n" in text
    copied.write_text(text.replace("/opt/pod-name/bin/pod-name", "/bin/true"))
    return copied


def test_systemd_analyze_verifies_the_unit(unit: Path) -> None:
    need_tool("systemd-analyze")
    assert run(["systemd-analyze", "verify", "--man=no", unit]) == ""


def test_systemd_analyze_rates_the_unit_as_safe(unit: Path) -> None:
    need_tool("systemd-analyze")
    output = run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit])
    level = re.search(r"Overall exposure level for .*?: ([\d.]+)", output)
    assert level, output
    assert float(level[1]) <= 2.0, f"a plugin needs the runtime's socket and nothing else:\n{output}"


class Index:
    """A package index with a stranger's `nri` on it, of a high version, that remembers what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        page = folder / "simple/nri"
        page.mkdir(parents=True)
        name = "nri-99.0-py3-none-any.whl"
        (page / "index.html").write_text(f'<a href="{name}">{name}</a>')
        with zipfile.ZipFile(page / name, "w") as archive:
            archive.writestr("nri/__init__.py", "raise SystemExit('a stranger')\n")
            archive.writestr("nri-99.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: nri\nVersion: 99.0\n")
            archive.writestr(
                "nri-99.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr("nri-99.0.dist-info/RECORD", "")
        index = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_request(self, *_: object) -> None:
                index.asked.append(self.path)

            def log_error(self, *_: object) -> None:
                """Log no missing files."""

        handler = functools.partial(Handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def option(self) -> str:
        return f"--index-url=http://127.0.0.1:{self.server.server_port}/simple"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index_ = Index(tmp_path / "index")
    yield index_
    index_.server.shutdown()
    index_.server.server_close()


@pytest.fixture
def pip(tmp_path: Path) -> list[str | Path]:
    """pip of a new environment, as its README begins."""
    run([sys.executable, "-m", "venv", tmp_path / "venv"])
    return [tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def test_the_project_installs_offline_from_its_wheels(complete: Path, pip: list[str | Path]) -> None:
    run([*pip, "--no-deps", "-r", "nri.txt"], cwd=complete)
    run([*pip, "--no-index", "--find-links", "wheels", "."], cwd=complete)
    output = run([pip[0].parent / "pod-name", "--version"])  # type: ignore[union-attr]
    assert output.startswith("pod-name: nri 0.")
    assert "+local.s" in output, "it must be the nri of the project's own wheel"


def test_a_package_of_the_same_name_on_the_index_is_never_installed(
    project: Path, index: Index, pip: list[str | Path]
) -> None:
    run([*pip, "--no-deps", index.option, "-r", "nri.txt"], cwd=project)
    assert index.asked == [], "nri.txt asks no index at all"
    python = pip[0]
    run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "nri"])
    (requirement,) = re.findall(r'"(nri==.*?)"', (project / "pyproject.toml").read_text())
    process = subprocess.run(
        [*map(str, pip), "--no-deps", index.option, requirement], capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert f"No matching distribution found for {requirement}" in process.stderr
    assert [path for path in index.asked if path.endswith(".whl")] == []
    loose = run([*pip, "--no-deps", "--dry-run", "--report", "-", index.option, "nri"])
    assert "99.0" in loose, "this index would give a stranger's away to whoever asks for the name alone"


def test_pip_refuses_a_changed_wheel(project: Path, pip: list[str | Path], tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(project, copied)
    (wheel,) = (copied / "wheels").iterdir()
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("nri/evil.py", "")
    process = subprocess.run(
        [*map(str, pip), "--no-deps", "-r", "nri.txt"], cwd=copied, capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert "DO NOT MATCH THE HASHES" in process.stderr
