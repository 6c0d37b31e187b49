"""Programs that the engine calls: there with a version, or missing with a next step."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nri.engine.check.programs import programs, version_of
from nri.engine.config import EngineConfig, OciRuntime


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    runc = script(tmp_path / "runc", "echo runc version 1.1.5+ds1; echo commit: 1.1.5+ds1-1")
    tool = script(tmp_path / "tool", "echo tool version 2.0")
    images = dataclasses.replace(EngineConfig().images, skopeo=tool, umoci=tool)
    runtimes = {"runc": OciRuntime(runc), "crun": OciRuntime("/none/crun")}
    return EngineConfig(runtimes=runtimes, conmon=tool, images=images)


def found(config: EngineConfig, root: Path = Path("/none")) -> dict[str, tuple[str, str, str]]:
    return {row.what: (row.state, row.found, row.next) for row in programs(config, root)}


def test_a_program_that_is_there_says_its_version_and_place(config: EngineConfig, tmp_path: Path) -> None:
    rows = found(config)
    assert rows["OCI runtime runc"] == ("ok", f"1.1.5+ds1, {tmp_path}/runc", "")
    assert rows["conmon"] == ("ok", f"2.0, {tmp_path}/tool", "")


def test_a_second_runtime_that_is_missing_is_no_hindrance(config: EngineConfig) -> None:
    state, what, step = found(config)["OCI runtime crun"]
    assert (state, what) == ("limited", "no program /none/crun: pods with this handler are refused")
    assert step.startswith("apt-get install crun")


def test_for_the_default_runtime_that_is_missing_another_one_is_named(config: EngineConfig) -> None:
    state, _, step = found(dataclasses.replace(config, default_runtime="crun"))["OCI runtime crun"]
    assert (state, step) == (
        "missing",
        'apt-get install crun, or set default_runtime = "runc", or name its path in engine.toml',
    )


def test_a_program_that_cannot_be_run_is_missing(config: EngineConfig, tmp_path: Path) -> None:
    bad = script(tmp_path / "bad", "exit 3")
    state, what, step = found(dataclasses.replace(config, conmon=bad))["conmon"]
    assert (state, what, step) == ("missing", f"{bad} does not say its version", f"try: {bad} --version")
    assert version_of("/none") == ""


def test_crun_on_a_hybrid_machine_is_named_as_what_it_is(config: EngineConfig, tmp_path: Path) -> None:
    crun = script(tmp_path / "crun", "echo crun version 1.8.1")
    unified = tmp_path / "sys/fs/cgroup/unified"
    unified.mkdir(parents=True)
    (unified / "cgroup.controllers").write_text("hugetlb\n")
    config = dataclasses.replace(config, runtimes={"runc": config.runtimes["runc"], "crun": OciRuntime(crun)})
    state, what, step = found(config, tmp_path)["OCI runtime crun"]
    assert (state, what) == ("limited", f"1.8.1, {crun}; it refuses cgroup v1 with hugetlb on v2")
    assert "use runc" in step
    (unified / "cgroup.controllers").write_text("\n")
    assert found(config, tmp_path)["OCI runtime crun"][0] == "ok"
