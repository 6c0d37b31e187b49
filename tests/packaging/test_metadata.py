"""Promises of pyproject.toml, the lock file and the exported requirements."""

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
PUBLIC_INDEX = {"pypi.org", "files.pythonhosted.org"}


def test_the_extras_are_the_documented_ones() -> None:
    assert set(PROJECT["optional-dependencies"]) == {
        "agent",
        "cri",
        "engine",
        "hook-injector",
        "metrics",
        "resource-annotator",
        "wasm",
    }


def test_the_base_install_has_three_dependencies() -> None:
    assert [Requirement(row).name for row in PROJECT["dependencies"]] == ["protobuf", "click", "PyYAML"]


def test_every_dependency_has_a_lower_bound() -> None:
    rows = [*PROJECT["dependencies"], *(row for extra in PROJECT["optional-dependencies"].values() for row in extra)]
    loose = [row for row in rows if not row.startswith("nri[") and ">=" not in row]

    assert not loose


@pytest.mark.parametrize("path", sorted(ROOT.glob("src/nri/**/*_pb2.py")), ids=lambda path: path.name)
def test_generated_code_loads_on_the_oldest_allowed_protobuf(path: Path) -> None:
    made_by = re.search(r"Protobuf Python Version: ([\d.]+)", path.read_text())
    assert made_by is not None, f"{path} does not say which protobuf made it"

    (allowed,) = (Requirement(row).specifier for row in PROJECT["dependencies"] if row.startswith("protobuf"))
    oldest = min(Version(part.version) for part in allowed if part.operator == ">=")

    assert Version(made_by[1]) <= oldest, f"{path.name} requires protobuf {made_by[1]}, pyproject.toml allows {oldest}"


@pytest.mark.parametrize("path", [ROOT / "uv.lock", *REQUIREMENTS], ids=lambda path: path.name)
def test_locked_files_use_only_the_public_index(path: Path) -> None:
    hosts = {urlsplit(url).hostname for url in re.findall(r"https?://[^\s\"']+", path.read_text())}

    assert hosts <= PUBLIC_INDEX


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_exported_requirement_has_a_version_and_a_hash(path: Path) -> None:
    rows = re.findall(r"^[a-zA-Z].*(?:(?<=\\)\n.*)*", path.read_text(), re.MULTILINE)
    loose = [row.splitlines()[0] for row in rows if "==" not in row or "--hash=sha256:" not in row]

    assert rows
    assert not loose


def test_the_ci_script_is_executable() -> None:
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
