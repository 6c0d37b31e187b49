"""`nri conformance plugin` with a good and a bad Go plugin, on both releases of the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers.drivers import install_plugin


def judged(program: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    argv = [sys.executable, "-m", "nri", "conformance", "plugin", "-o", "json", str(program)]
    process = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    sections = json.loads(process.stdout)["sections"]
    return process.returncode, {row["name"]: (row["outcome"], row["note"]) for one in sections for row in one["rows"]}


@pytest.mark.parametrize("release", ["", "061"])
def test_a_good_go_plugin_passes_the_examination(tmp_path: Path, release: str) -> None:
    script: dict[str, Any] = {"CreateContainer": {"adjust": {"env": [{"key": "A", "value": "1"}]}}}
    program = install_plugin(tmp_path / "p", "10", "good", release=release, log=tmp_path / "log", on=script)
    code, matches = judged(program)
    wrong = {name for name, row in matches.items() if row[0] != "ok"}
    in_parts = {"accepts a state of more than 4 MiB, in parts"} if release else set()  # 0.6.1 does not know of parts
    assert (code, wrong) == (int(bool(release)), in_parts), matches


def test_a_go_plugin_that_updates_a_missing_container_fails_the_examination(tmp_path: Path) -> None:
    script = {"CreateContainer": {"update": [{"container_id": "nope", "linux": {"resources": {"cpu": {}}}}]}}
    program = install_plugin(tmp_path / "p", "10", "bad", log=tmp_path / "log", on=script)
    code, matches = judged(program)
    assert code == 1
    assert matches["updates only existing containers"][0] == "wrong"
