"""Files of manifests that are read again when they change."""

import os
from pathlib import Path

import pytest

from nri.kube import folder as module
from nri.kube.folder import Folder


def names(folder: Folder) -> dict[str, list[str]]:
    return {
        os.path.basename(path): [thing.get("name", "") for _, thing in contents]
        for path, contents in folder.files.items()
    }


def test_files_of_a_folder_are_read_in_order_with_documents_and_lists(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("name: one\n---\n# nothing\n---\nname: two\n")
    (tmp_path / "a.json").write_text('{"kind": "List", "items": [{"name": "x"}, {"kind": "PodList", "items": [{}]}]}')
    (tmp_path / "c.yml").write_text("name: three\n")
    (tmp_path / "d.txt").write_text("name: no\n")
    (tmp_path / ".hidden.yaml").write_text("name: no\n")
    folder = Folder(tmp_path)
    assert folder.changed()
    assert list(names(folder).items()) == [("a.json", ["x", ""]), ("b.yaml", ["one", "two"]), ("c.yml", ["three"])]
    assert folder.errors == {}


def test_only_the_first_read_and_changes_are_reported(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "rules")
    assert folder.changed()
    assert not folder.changed()
    (tmp_path / "rules").mkdir()
    assert not folder.changed()
    (tmp_path / "rules/a.yaml").write_text("name: one\n")
    assert folder.changed()
    assert not folder.changed()
    (tmp_path / "rules/a.yaml").write_text("name: other\n")
    assert folder.changed()
    assert names(folder) == {"a.yaml": ["other"]}
    (tmp_path / "rules/a.yaml").unlink()
    assert folder.changed()
    assert names(folder) == {}


def test_one_file_can_be_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "only.conf"
    path.write_text("name: one\n")
    folder = Folder(path)
    assert folder.changed()
    assert names(folder) == {"only.conf": ["one"]}
    path.unlink()
    assert folder.changed()
    assert names(folder) == {}


def test_a_config_map_is_replaced_atomically(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.yaml").write_text(f"name: v{version}\n")
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "..data").symlink_to(tmp_path / "1")
    (rules / "a.yaml").symlink_to("..data/a.yaml")
    folder = Folder(rules)
    assert folder.changed() and names(folder) == {"a.yaml": ["v1"]}
    (rules / "..new").symlink_to(tmp_path / "2")
    (rules / "..new").rename(rules / "..data")
    assert folder.changed() and names(folder) == {"a.yaml": ["v2"]}


@pytest.mark.parametrize("bad", ["a: [", "- a\n", "just text", "a: 1\n---\na: 1\na: 2\n", "items: 1\nkind: List\n"])
def test_an_unreadable_file_keeps_its_last_content(tmp_path: Path, bad: str) -> None:
    (tmp_path / "a.yaml").write_text("name: one\n")
    (tmp_path / "b.yaml").write_text("name: two\n")
    folder = Folder(tmp_path)
    folder.changed()
    (tmp_path / "a.yaml").write_text(bad)
    (tmp_path / "b.yaml").write_text("name: three\n")
    assert folder.changed()
    assert names(folder) == {"a.yaml": ["one"], "b.yaml": ["three"]}
    (error,) = folder.errors.values()
    assert error.source.startswith(str(tmp_path / "a.yaml"))
    (tmp_path / "a.yaml").write_text("name: mended\n")
    assert folder.changed()
    assert (names(folder)["a.yaml"], folder.errors) == (["mended"], {})


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_an_emptied_file_keeps_its_content_until_it_is_written_or_removed(tmp_path: Path, nothing: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(nothing)
    folder = Folder(path)
    folder.changed()
    assert (folder.files, folder.errors) == ({str(path): []}, {})
    path.write_text("name: one\n")
    folder.changed()
    path.write_text(nothing)
    assert folder.changed()
    assert names(folder) == {"rules.yaml": ["one"]}
    assert "the file has become empty" in str(folder.errors[str(path)])
    path.write_text("name: two\n")
    folder.changed()
    assert (names(folder), folder.errors) == ({"rules.yaml": ["two"]}, {})
    path.write_text('{"kind": "List", "items": []}')
    folder.changed()
    assert (names(folder), folder.errors) == ({"rules.yaml": []}, {})


def test_an_error_names_the_line_in_the_file_also_of_a_later_document(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: one\n---\na: 1\na: 2\n")
    folder = Folder(tmp_path)
    folder.changed()
    (error,) = folder.errors.values()
    assert error.source == f"{tmp_path}/a.yaml:4"


def test_a_pipe_is_reported_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    folder = Folder(tmp_path)
    folder.changed()
    assert len(folder.errors) == 1


def test_a_removed_file_removes_its_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    folder = Folder(tmp_path)
    folder.changed()
    (tmp_path / "a.yaml").unlink()
    assert folder.changed()
    assert folder.errors == {}


def test_too_many_files_keep_the_last_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text("name: one\n")
    folder = Folder(tmp_path)
    folder.changed()
    (tmp_path / "c.yaml").write_text("name: three\n")
    assert folder.changed()
    assert list(names(folder)) == ["a.yaml", "b.yaml"]
    assert "more than 2 files" in str(folder.errors[str(tmp_path)])
    assert not folder.changed()
    (tmp_path / "a.yaml").unlink()
    assert folder.changed()
    assert (list(names(folder)), folder.errors) == (["b.yaml", "c.yaml"], {})


def test_too_many_objects_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OBJECTS", 2)
    (tmp_path / "a.yaml").write_text("{}\n---\n{}\n---\n{}\n")
    folder = Folder(tmp_path)
    folder.changed()
    assert "more than 2 objects" in str(folder.errors[str(tmp_path / "a.yaml")])


def test_deep_nesting_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a":' * 5000 + "1" + "}" * 5000)
    folder = Folder(tmp_path)
    folder.changed()
    assert "deep" in str(folder.errors[str(tmp_path / "a.json")])
