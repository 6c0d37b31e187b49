"""`nri predict`: who collides with whom, for people and as JSON; exit codes."""

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
    """Two recordings of the same container, each with a plugin of its own."""
    made = []
    for index in ("10", "20"):
        folder = tmp_path_factory.mktemp("traces")
        with Recorder(folder) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            pod, container = make_pod(id="p", name="web", namespace="shop"), make_container(id="c", name="main")
            runtime.add(Sets(), index).create_container(pod, container)
        made.append(str(folder))
    return made[0], made[1]


def test_a_collision_is_a_line_and_4(nri, folders: tuple[str, str]) -> None:
    done = nri("predict", *folders)
    assert done.returncode == 4, done.stderr
    assert done.stdout.splitlines()[1].split() == (
        ["Env", "LEVEL", "10-sets", "20-sets", "CreateContainer", "1", "shop/web/main", "0"]
    )


def test_json_has_all_containers(nri, folders: tuple[str, str]) -> None:
    done = nri("predict", *folders, "-o", "json")
    (row,) = json.loads(done.stdout)
    assert (row["field"], row["key"], row["containers"], row["happened"]) == ("Env", "LEVEL", ["shop/web/main"], 0)


def test_none_is_said_and_0(nri, folders: tuple[str, str]) -> None:
    done = nri("predict", folders[0])
    assert (done.returncode, "no two plugins" in done.stderr) == (0, True)


def test_what_cannot_be_read_is_1(nri, folders: tuple[str, str], tmp_path: Path) -> None:
    (whole,) = Path(folders[0]).iterdir()
    cut = tmp_path / "cut.nritrace"
    cut.write_bytes(whole.read_bytes()[:-3])
    done = nri("predict", str(cut))
    assert done.returncode == 1, done.stderr
    assert "cut.nritrace: at byte" in done.stderr


def test_no_recording_is_a_clear_error(nri, tmp_path: Path) -> None:
    done = nri("predict", str(tmp_path))
    assert (done.returncode, "no trace" in done.stderr) == (2, True)
