"""A dry container has the lifecycle of a real container."""

import json
from pathlib import Path

import pytest

from nri.engine.process import Exit
from nri.engine.process.dry import DryConmon, DryExits, DryRuntime, dry_exec_sync
from nri.engine.support.errors import CommandFailed, NotFound


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"process": {"args": ["x"]}}))
    return tmp_path


def test_the_exit_of_a_container_is_reported_once(bundle: Path) -> None:
    runtime, exits_ = DryRuntime(), []
    exits = DryExits(exits_.append)
    created = DryConmon().create(runtime, "c1", bundle, log_path=bundle / "log")
    exits.watch("c1", bundle, runtime)
    assert runtime.state("c1") == ("created", created.pid, str(bundle))
    with pytest.raises(CommandFailed, match="exec"):
        dry_exec_sync(runtime, "c1", {})
    runtime.start("c1")
    with pytest.raises(CommandFailed, match="cannot start a container in the running state"):
        runtime.start("c1")
    assert dry_exec_sync(runtime, "c1", {}) == (b"", b"", 0)
    runtime.update("c1", {"memory": {"limit": 5}})
    runtime.update("c1", {"memory": {"swap": 6}})
    assert json.loads((bundle / "config.json").read_text())["linux"]["resources"] == {"memory": {"limit": 5, "swap": 6}}
    assert runtime.kill("c1", "SIGWINCH") is True
    assert (runtime.kill("c1", "TERM"), runtime.kill("c1", 9)) == (True, False)
    assert [(row.container_id, row.code) for row in exits_] == [("c1", 143)]
    runtime.delete("c1")
    runtime.delete("c1")
    with pytest.raises(NotFound):
        runtime.state("c1")


def test_an_exit_before_the_watch_is_reported(bundle: Path) -> None:
    runtime = DryRuntime()
    exits_: list[Exit] = []
    DryConmon().create(runtime, "c1", bundle, log_path=bundle / "log")
    runtime.kill("c1", 9)
    DryExits(exits_.append).watch("c1", bundle, runtime)
    assert [row.code for row in exits_] == [137]


@pytest.mark.parametrize("config", ["", "{}", '{"process": {"args": []}}'])
def test_an_invalid_bundle_is_refused(bundle: Path, config: str) -> None:
    (bundle / "config.json").write_text(config)
    with pytest.raises(CommandFailed, match="dry create c1"):
        DryConmon().create(DryRuntime(), "c1", bundle)


def test_a_container_of_an_earlier_engine_has_exited() -> None:
    ended = DryRuntime().ended("c1")
    assert ended is not None
    assert (ended.container_id, ended.code) == ("c1", 255)


def test_an_unwatched_exit_is_not_reported(tmp_path: Path) -> None:
    exits_: list[Exit] = []
    exits, runtime = DryExits(exits_.append), DryRuntime()
    (tmp_path / "config.json").write_text('{"process": {"args": ["a"]}}')
    DryConmon().create(runtime, "c1", tmp_path)
    exits.watch("c1", tmp_path, runtime)
    exits.forget("c1")
    DryConmon().remove(runtime, "c1", tmp_path)
    assert exits_ == []
