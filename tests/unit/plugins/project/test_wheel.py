"""The wheel that `nri new` puts into a project: its content and version."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import nri
from nri.errors import NriError
from nri.plugins.project import wheel as module
from nri.plugins.project.wheel import Wheel, own_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return own_wheel(tmp_path_factory.mktemp("wheels"))


def test_the_wheel_has_every_source_file_and_no_compiled_file(wheel: Wheel) -> None:
    root = Path(nri.__file__).parent
    sources = {path.relative_to(root.parent).as_posix() for path in root.rglob("*.py")}
    names = {name for name in zipfile.ZipFile(wheel.path).namelist() if name.startswith("nri/")}
    assert sources <= names
    assert "nri/py.typed" in names
    assert "nri/plugins/project/templates/Containerfile.txt" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith((".so", ".pyc"))]


def test_equal_files_give_equal_wheels(wheel: Wheel, tmp_path: Path) -> None:
    second = own_wheel(tmp_path / "made")
    assert (second.version, second.sha256) == (wheel.version, wheel.sha256)
    assert hashlib.sha256(wheel.path.read_bytes()).hexdigest() == wheel.sha256


def test_the_metadata_equal_the_installations_except_the_version(wheel: Wheel) -> None:
    info = f"nri-{wheel.version}.dist-info"
    archive = zipfile.ZipFile(wheel.path)
    about = archive.read(f"{info}/METADATA").decode()
    distribution = metadata.distribution("nri")
    assert about == (distribution.read_text("METADATA") or "").replace(
        f"Version: {distribution.version}", f"Version: {wheel.version}", 1
    )
    assert "nri = nri.cli.entry:start" in archive.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert b"Tag: py3-none-any" in archive.read(f"{info}/WHEEL")


def test_the_record_has_every_file_with_its_hash(wheel: Wheel) -> None:
    archive = zipfile.ZipFile(wheel.path)
    rows = list(csv.reader(io.StringIO(archive.read(f"nri-{wheel.version}.dist-info/RECORD").decode())))
    assert {row[0] for row in rows} == set(archive.namelist())
    for name, digest, size in rows[:-1]:
        data = archive.read(name)
        built = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert (f"sha256={built}", str(len(data))) == (digest, size)
    assert rows[-1][1:] == ["", ""]


def test_the_version_depends_on_the_content_and_has_one_label() -> None:
    one = module.labelled("0.1.0", {"a": b"1"})
    assert one.startswith("0.1.0+local.s")
    assert module.labelled(one, {"a": b"1"}) == one
    assert module.labelled("0.1.0", {"a": b"2"}) != one
    assert module.labelled("0.1.0+debian1", {"a": b"1"}).startswith("0.1.0+debian1.local.s")


def test_a_package_without_metadata_cannot_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(module.metadata, "distribution", missing)
    with pytest.raises(NriError, match=r"not installed, so it cannot be packed\. First: pip install "):
        own_wheel(tmp_path / "wheels")
    assert not (tmp_path / "wheels").exists()
