"""`nri predict`: collisions as text and JSON, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nri as package
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.recorder import Recorder


class Sets(package.Plugin):
    """Sets one variable."""

    def create_container(self, pod: package.PodSandbox, container: package.Container) -> package.Adjustment:
        return package.Adjustment().add_env("LEVEL", "1")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two recordings of the same container, each with its own plugin."""
    created = []
    for index in ("10", "20"):
        folder = tmp_path_factory.mktemp("traces")
        with Recorder(folder) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            pod, container = make_pod(id="p", name="web", namespace="shop"), make_container(id="c", name="main")
            runtime.add(Sets(), index).create_container(pod, container)
        created.append(str(folder))
    return created[0], created[1]


def test_a_collision_prints_a_line_and_exits_with_4(nri, folders: tuple[str, str]) -> None:
    result = nri("predict", *folders)
    assert result.returncode == 4, result.stderr
    assert result.stdout.splitlines()[1].split() == (
        ["Env", "LEVEL", "10-sets", "20-sets", "CreateContainer", "1", "shop/web/main", "0", "answers"]
    )


def test_json_has_all_containers(nri, folders: tuple[str, str]) -> None:
    result = nri("predict", *folders, "-o", "json")
    (row,) = json.loads(result.stdout)
    assert (row["field"], row["key"], row["containers"], row["happened"]) == ("Env", "LEVEL", ["shop/web/main"], 0)


def test_without_a_collision_the_exit_code_is_0(nri, folders: tuple[str, str]) -> None:
    result = nri("predict", folders[0])
    assert (result.returncode, "no two plugins" in result.stderr) == (0, True)


def test_an_unreadable_recording_exits_with_1(nri, folders: tuple[str, str], tmp_path: Path) -> None:
    (full,) = Path(folders[0]).iterdir()
    cut = tmp_path / "cut.nritrace"
    cut.write_bytes(full.read_bytes()[:-3])
    result = nri("predict", str(cut))
    assert result.returncode == 1, result.stderr
    assert "cut.nritrace: at byte" in result.stderr
    cut.write_bytes(full.read_bytes()[:99])
    result = nri("predict", str(cut))
    assert (result.returncode, result.stdout) == (1, ""), "not that no two plugins collide"
    assert f"nothing to compare: no event could be read. nri trace show {cut} lists readable events" in result.stderr


def test_a_missing_recording_is_an_error(nri, tmp_path: Path) -> None:
    result = nri("predict", str(tmp_path))
    assert (result.returncode, "no trace" in result.stderr) == (2, True)


PLUGIN = """
import nri

class {name}(nri.Plugin):
    {sets}
"""


def plugin(folder: Path, name: str, sets: str) -> str:
    path = folder / f"{name.lower()}.py"
    path.write_text(PLUGIN.format(name=name, sets=sets))
    return str(path)


def test_plugins_are_compared_by_their_declarations(nri, tmp_path: Path, folders: tuple[str, str]) -> None:
    one = plugin(tmp_path, "One", 'sets = ("env.*",)')
    two = plugin(tmp_path, "Two", 'sets = ("env.LEVEL", "args")')
    result = nri("predict", "--plugin", f"05={one}", "--plugin", two)
    assert result.returncode == 4, result.stderr
    assert result.stdout.splitlines()[1].split() == (
        ["Env", "LEVEL", "05-one", "20-two", "-", "0", "any", "that", "both", "change", "0", "declared"]
    )
    (tmp_path / "cut.nritrace").write_bytes(next(Path(folders[0]).iterdir()).read_bytes()[:99])
    message = nri("predict", str(tmp_path / "cut.nritrace"), "--plugin", f"05={one}", "--plugin", two)
    assert (message.returncode, message.stdout) == (4, result.stdout), "also together with an unreadable recording"
    combined = nri("predict", folders[0], "--plugin", f"30={two}", "-o", "json")
    (row,) = json.loads(combined.stdout)
    assert (row["first"], row["second"], row["containers"], row["known_by"]) == (
        ("10-sets", "30-two", ["shop/web/main"], "declared")
    )


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ("pass", "One has no sets = "),
        ('sets = ("envs",)', 'One.sets: "envs" is not a field that a plugin can change; did you mean "env"?'),
    ],
)
def test_a_plugin_without_a_valid_declaration_is_an_error(nri, tmp_path: Path, sets: str, words: str) -> None:
    result = nri("predict", "--plugin", plugin(tmp_path, "One", sets))
    assert (result.returncode, words in result.stderr) == (2, True), result.stderr


def test_programs_and_missing_arguments_are_errors_with_the_next_step(nri, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    result = nri("predict", "--plugin", str(program))
    assert (result.returncode, "nri replay --plugin" in result.stderr) == (2, True)
    result = nri("predict")
    assert (result.returncode, "--plugin" in result.stderr) == (2, True)
