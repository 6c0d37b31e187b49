"""Archives from a hostile container are unpacked below the target only, and within limits."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from nri.errors import NriError
from nri.pods.archive import Destination, pack, unpack

MIB = 1 << 20


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def archive(*entries: tuple[tarfile.TarInfo, bytes], format_: int = tarfile.GNU_FORMAT) -> io.BytesIO:
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w", format=format_) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    result.seek(0)
    return result


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").write_text("kept")
    return tmp_path / "target"


def run(target: Path, data: io.BytesIO, max_bytes: int = MIB) -> list[str]:
    notes: list[str] = []
    unpack(data, Destination(str(target), "src", "dst", max_bytes), notes.append)
    return notes


@pytest.mark.parametrize(
    "name", ["../outside", "src/../../outside", "/etc/x", "other/file", "src/a\0b", "src/" + "d/" * 3000]
)
def test_a_name_outside_of_the_requested_path_is_refused(target: Path, name: str) -> None:
    info, data = entry("src/placeholder", b"bad")
    info.name, info.pax_headers = name, {"path": name} if "\0" in name else {}
    with pytest.raises(NriError, match="outside of what was requested"):
        run(target, archive((info, data), format_=tarfile.PAX_FORMAT if "\0" in name else tarfile.GNU_FORMAT))
    assert [*target.iterdir()] == [] and (target.parent / "outside").read_text() == "kept"


def test_links_of_an_archive_are_not_created(target: Path) -> None:
    link = entry("src/way", type=tarfile.SYMTYPE, linkname="../..")
    notes = run(target, archive(entry("src", type=tarfile.DIRTYPE), link, entry("src/way/outside", b"bad")))
    assert notes == ["skipped src/way: symbolic link"]
    assert (target / "dst/way/outside").read_bytes() == b"bad" and not (target / "dst/way").is_symlink()
    assert (target.parent / "outside").read_text() == "kept"


def test_existing_links_below_the_target_are_not_followed(target: Path) -> None:
    (target / "dst").mkdir()
    (target / "dst/way").symlink_to(target.parent)
    (target / "dst/file").symlink_to(target.parent / "outside")
    run(target, archive(entry("src/file", b"new")))
    assert (target / "dst/file").read_bytes() == b"new" and not (target / "dst/file").is_symlink()
    with pytest.raises(OSError, match="dst/way"):
        run(target, archive(entry("src/way/outside", b"bad")))
    assert (target.parent / "outside").read_text() == "kept"


def test_a_hard_link_leads_only_to_a_file_of_the_archive(target: Path) -> None:
    (target / "dst").mkdir()
    os.link(target.parent / "outside", target / "dst/old")
    names = ("src/file", "src/old", "src/none")
    links = [entry(f"src/link{number}", type=tarfile.LNKTYPE, linkname=name) for number, name in enumerate(names)]
    notes = run(target, archive(entry("src/file", b"x"), *links))
    assert notes == ["skipped src/link1: hard link", "skipped src/link2: hard link"]
    assert (target / "dst/link0").samefile(target / "dst/file")
    with pytest.raises(NriError, match="outside of what was requested"):
        run(target, archive(entry("src/l", type=tarfile.LNKTYPE, linkname="../outside")))


def test_special_files_are_skipped_and_modes_lose_setuid(target: Path) -> None:
    device = entry("src/disk", type=tarfile.BLKTYPE, devmajor=8)
    pipe = entry("src/pipe", type=tarfile.FIFOTYPE)
    notes = run(target, archive(device, pipe, entry("src/su", b"x", mode=0o6755)))
    assert notes == ["skipped src/disk: special file", "skipped src/pipe: special file"]
    assert stat.S_IMODE((target / "dst/su").stat().st_mode) == 0o755
    assert [path.name for path in (target / "dst").iterdir()] == ["su"]


def test_the_size_of_all_files_is_limited_and_no_partial_file_remains(target: Path) -> None:
    with pytest.raises(NriError, match="--max-size"):
        run(target, archive(entry("src/a", b"x" * 600), entry("src/b", b"x" * 600)), max_bytes=1000)
    cut = io.BytesIO(archive(entry("src/c", b"x" * 5000)).getvalue()[:2000])
    with pytest.raises(NriError, match="ends too early"):
        run(target, cut, max_bytes=10_000)
    assert [path.name for path in (target / "dst").iterdir()] == ["a"]


@pytest.mark.parametrize("record", [b"12 no equals", b"9 size=x\n", b"99 path=x\n", b"x"])
def test_invalid_pax_headers_are_refused(target: Path, record: bytes) -> None:
    header = entry("pax", record, type=tarfile.XHDTYPE)
    with pytest.raises(NriError, match="invalid pax header"):
        run(target, archive(header, entry("src/file", b"x")))


def test_a_pax_header_gives_the_size_of_its_file_and_other_records_are_ignored(target: Path) -> None:
    header = entry("pax", b"12 size=600\n17 mtime=12345.5\n", type=tarfile.XHDTYPE)
    file, data = entry("src/file", b"x" * 600)
    packed = archive(header, (file, data)).getvalue()
    file.size = 0
    run(target, io.BytesIO(packed.replace(entry("src/file", data)[0].tobuf(), file.tobuf())))
    assert (target / "dst/file").read_bytes() == data


def test_only_the_first_skipped_entries_are_named(target: Path) -> None:
    links = [entry(f"src/{number}", type=tarfile.SYMTYPE, linkname="x") for number in range(25)]
    notes = run(target, archive(*links))
    assert len(notes) == 21 and notes[-1] == "skipped 5 more links and special files"


def test_long_headers_are_refused_before_they_are_read(target: Path) -> None:
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE):
        info = tarfile.TarInfo("src/x")
        info.type, info.size = kind, 1 << 40
        with pytest.raises(NriError, match=f"a header of {1 << 40} bytes"):
            run(target, io.BytesIO(info.tobuf(tarfile.GNU_FORMAT)))


def test_sparse_files_and_damage_are_errors(target: Path) -> None:
    sparse = entry("src/x", b"x", pax_headers={"GNU.sparse.major": "1"})
    with pytest.raises(NriError, match="sparse files"):
        run(target, archive(sparse, format_=tarfile.PAX_FORMAT))
    with pytest.raises(NriError, match="sparse files"):
        run(target, archive(entry("src/x", type=tarfile.GNUTYPE_SPARSE)))
    with pytest.raises(NriError, match="damaged"):
        run(target, io.BytesIO(b"x" * 1024))
    assert [*target.iterdir()] == []


def test_endless_bytes_after_the_archive_and_endless_folders_are_errors(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    padded = io.BytesIO(archive(entry("src/file", b"x")).getvalue() + bytes(2 * MIB))
    with pytest.raises(NriError, match="bytes after its end"):
        run(target, padded)
    monkeypatch.setattr("nri.pods.archive.MAX_FOLDERS", 5)
    with pytest.raises(NriError, match="more than 5 folders"):
        run(target, archive(entry("src/a/b/c/d/e/f/g", b"x")))


def test_a_tree_of_any_depth_is_packed(target: Path, tmp_path: Path) -> None:
    names, folder = "d/" * 1900, os.open(tmp_path, os.O_PATH)
    for name in names.split("/")[:-1]:
        os.mkdir(name, dir_fd=folder)
        child = os.open(name, os.O_PATH, dir_fd=folder)
        os.close(folder)
        folder = child
    os.close(folder)
    packed = io.BytesIO()
    pack(str(tmp_path / "d"), "src", packed, print)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        assert max(member.name.count("/") for member in tar) == 1899
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # shutil.rmtree recurses


def test_a_symbolic_link_is_packed_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/link").symlink_to("/etc/hostname")
    packed = io.BytesIO()
    pack(str(tmp_path / "source"), "src", packed, lambda _: None)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        assert tar.getmember("src/link").linkname == "/etc/hostname"


def test_a_link_that_replaces_a_folder_while_it_is_packed_is_not_followed(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    for folder, text in ((tree / "b", "own"), (outside, "secret")):
        folder.mkdir(parents=True)
        (folder / "file").write_text(text)
    os.mkfifo(tree / "b/a")

    def replace(_: str) -> None:  # called for the pipe, after the folder was listed
        (tree / "b").rename(tree / "c")
        (tree / "b").symlink_to(outside)

    packed = io.BytesIO()
    with pytest.raises(OSError, match="tree/b/file"):
        pack(str(tree), "src", packed, replace)
    assert b"secret" not in packed.getvalue()


def test_packed_trees_can_be_unpacked_with_long_names_of_both_formats(target: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / ("n" * 200)).mkdir(parents=True)
    (tree / "a" / ("n" * 200) / "file").write_text("deep")
    (tree / "empty").mkdir()
    os.mkfifo(tree / "pipe")
    packed, notes = io.BytesIO(), []
    pack(str(tree), "./src", packed, notes.append)
    packed.seek(0)
    assert run(target, packed) == [] and notes == [f"skipped {tree}/pipe: special file"]
    assert (target / "dst/a" / ("n" * 200) / "file").read_text() == "deep" and (target / "dst/empty").is_dir()
    run(target, archive(entry("src/" + "p" * 240, b"pax"), format_=tarfile.PAX_FORMAT))
    assert (target / "dst" / ("p" * 240)).read_text() == "pax"
