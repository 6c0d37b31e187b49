"""`nri disable` removes launchers and no other file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import complete


def test_disable_keeps_the_configuration_unless_purged(nri, plugin: Path, places, tmp_path: Path) -> None:
    config = tmp_path / "c"
    config.write_text("")
    drop_in = tmp_path / "conf.d/10-pod-name.conf"
    nri("enable", str(plugin), "--idx", "10", "--config", str(config), *places)
    result = nri("disable", "pod-name", *places)
    assert (result.returncode, result.stdout) == (0, f"removed {tmp_path}/plugins/10-pod-name\n")
    assert f"was kept: {drop_in} (--purge removes it)" in result.stderr
    assert drop_in.exists()
    nri("enable", str(plugin), "--idx", "10", *places)
    assert nri("disable", "10-pod-name", "--purge", "--dry-run", *places).stdout.count("would remove") == 2
    assert nri("disable", "10-pod-name", "--purge", *places).returncode == 0
    assert not drop_in.exists()


def test_the_configuration_can_be_purged_after_the_plugin(nri, plugin: Path, places, tmp_path: Path) -> None:
    config = tmp_path / "c"
    config.write_text("")
    drop_in = tmp_path / "conf.d/10-pod-name.conf"
    nri("enable", str(plugin), "--idx", "10", "--config", str(config), *places)
    assert nri("disable", "pod-name", *places).returncode == 0
    result = nri("disable", "pod-name", *places)
    assert result.returncode == 1
    assert f"Its configuration still exists: {drop_in} (--purge removes it)" in result.stderr
    assert nri("disable", "pod-name", "--purge", "--dry-run", *places).stdout == f"would remove {drop_in}\n"
    purged = nri("disable", "pod-name", "--purge", *places)
    assert (purged.returncode, purged.stdout) == (0, f"removed {drop_in}\n"), purged.stderr
    assert not drop_in.exists()
    assert nri("disable", "pod-name", "--purge", *places).returncode == 1


def test_quiet_prints_only_paths(nri, plugin: Path, places, tmp_path: Path) -> None:
    launcher = f"{tmp_path}/plugins/10-pod-name\n"
    for verb, *remaining in (("enable", str(plugin), "--idx", "10"), ("disable", "pod-name")):
        result = nri(verb, *remaining, "-q", *places)
        assert (result.stdout, result.stderr) == (launcher, "")


def test_foreign_files_are_never_removed(nri, places, tmp_path: Path) -> None:
    foreign = tmp_path / "plugins/10-a"
    foreign.parent.mkdir()
    foreign.write_text("#!/bin/sh\n")
    result = nri("disable", "a", *places)
    assert result.returncode == 1
    assert "not written by `nri enable`, so it is not removed" in result.stderr
    assert foreign.exists()


def test_wrong_and_ambiguous_names_list_the_launchers(nri, places, tmp_path: Path) -> None:
    assert "The folder does not exist" in nri("disable", "a", *places).stderr
    (tmp_path / "plugins").mkdir()
    assert "The folder is empty" in nri("disable", "a", *places).stderr
    for name in ("10-a", "20-a", "30-b"):
        (tmp_path / "plugins" / name).touch()
    assert "plugin c not found. Plugins in the folder: 10-a, 20-a, 30-b" in nri("disable", "c", *places).stderr
    assert "several plugins are named a: 10-a, 20-a. Give the index as well" in nri("disable", "a", *places).stderr


def test_a_misspelt_name_is_an_error_with_a_suggestion(nri, plugin: Path, places) -> None:
    assert nri("enable", str(plugin), "--idx", "10", *places).returncode == 0
    result = nri("disable", "pod-nmae", *places)
    assert result.returncode == 1
    assert "plugin pod-nmae not found. Did you mean pod-name? Plugins in the folder: 10-pod-name" in result.stderr


def test_names_are_completed_with_and_without_the_index(tmp_path: Path) -> None:
    for name in ("10-logger", "20-template"):
        (tmp_path / name).touch()
    assert complete(f"nri disable --plugin-dir {tmp_path} ", 4) == ["logger", "10-logger", "template", "20-template"]
    assert complete(f"nri disable --plugin-dir {tmp_path} 2", 4) == ["20-template"]


def test_an_unreadable_folder_has_no_completions(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert complete(f"nri disable --plugin-dir {tmp_path}/file ", 4) == []


@pytest.mark.parametrize("dry", [False, True], ids=["removed", "only-shown"])
def test_json_has_the_paths_and_the_dry_run(nri, plugin: Path, places, tmp_path: Path, dry: bool) -> None:
    nri("enable", str(plugin), "--idx", "10", *places)
    launcher = tmp_path / "plugins/10-pod-name"
    result = nri("disable", "pod-name", "-o", "json", *(["--dry-run"] if dry else []), *places)
    assert json.loads(result.stdout) == {"dry_run": dry, "removed": [str(launcher)]}, result.stderr
    assert launcher.exists() == dry
