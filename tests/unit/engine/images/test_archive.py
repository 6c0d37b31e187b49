"""Archives of images are recognized by their content."""

from __future__ import annotations

import lzma
import os
import tarfile
from pathlib import Path

import pytest

from nri.engine.images.archive import archive_source
from nri.errors import NriError


def archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    return path


@pytest.mark.parametrize(
    ("archive_", "source"),
    [
        ("old.tar", "docker-archive:{}/old.tar"),
        ("new.tar", "oci-archive:{}/new.tar"),
        ("layout", "oci:{}/layout"),
        ("docker-archive:old.tar:app:1", "docker-archive:{}/old.tar:app:1"),
    ],
)
def test_the_content_of_an_archive_shows_its_format(
    archive_: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive(tmp_path / "old.tar", "a/layer.tar", "manifest.json")
    archive(tmp_path / "new.tar", "blobs", "oci-layout")
    (tmp_path / "layout").mkdir()
    assert archive_source(archive_) == source.format(tmp_path)


def test_an_invalid_image_archive_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(NriError, match=r"none: no such file$"):
        archive_source(str(tmp_path / "none"))
    (tmp_path / "text").write_text("kind: Pod\n" * 99)
    with pytest.raises(NriError, match=r"text is not a readable archive: not a tar archive\. Create one: docker save"):
        archive_source(str(tmp_path / "text"))
    with pytest.raises(NriError, match=r"other\.tar is not an image archive: neither manifest\.json nor oci-layout"):
        archive_source(str(archive(tmp_path / "other.tar", "readme")))
    os.mkfifo(tmp_path / "pipe")
    packed = lzma.compress(archive(tmp_path / "whole.tar", *map(str, range(50))).read_bytes())
    (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "broken").write_bytes(packed[:99] + b"?" * 99)
    for name in ("pipe", "cut", "broken"):
        with pytest.raises(NriError, match=f"{name} is not a readable archive"):
            archive_source(str(tmp_path / name))
