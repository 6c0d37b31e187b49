"""The process that a pod's mapped namespaces come from; programs of the test stand in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.engine.lifecycle.parts import mapped
from nri.engine.lifecycle.parts.mapped import mapped_process
from nri.engine.support.errors import EngineError, ToolMissing

MAPPINGS = {key: [{"containerID": 0, "hostID": 100_000, "size": 65_536}] for key in ("uidMappings", "gidMappings")}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is written below /proc, by the file's name; the program is `unshare` in a folder of the test."""
    texts: dict[str, str] = {}

    class Kernel:
        def __init__(self, path: str) -> None:
            self.path = path

        def write_text(self, text: str) -> None:
            texts[self.path.rpartition("/")[2]] = text

    monkeypatch.setattr(mapped, "Path", Kernel)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return texts


def unshare(folder: Path, script: str) -> None:
    (folder / "unshare").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "unshare").chmod(0o755)


def test_ids_are_mapped_when_the_namespaces_are_there_and_the_process_ends_with_the_context(
    tmp_path: Path, written: dict[str, str]
) -> None:
    unshare(tmp_path, f'echo "$@" > {tmp_path}/words; exec cat')
    with mapped_process({"network", "ipc"}, MAPPINGS) as pid:
        assert Path(f"/proc/{pid}").exists()
        assert written == {"uid_map": "0 100000 65536\n", "gid_map": "0 100000 65536\n"}
    assert not Path(f"/proc/{pid}").exists()
    assert (tmp_path / "words").read_text().split()[:3] == ["--user", "--net", "--ipc"]


@pytest.mark.parametrize("begin", ["", "exec <&-; ", "read line; "], ids=["at once", "before it is asked", "asked"])
def test_a_kernel_that_refuses_is_told_in_the_programs_words(
    tmp_path: Path, written: dict[str, str], begin: str
) -> None:
    unshare(tmp_path, f'{begin}printf "unshare failed: " >&2; echo "No space left" >&2; exit 1')
    with (
        pytest.raises(EngineError, match=r"namespace: unshare failed: No space"),
        mapped_process({"ipc"}, MAPPINGS),
    ):
        pass
    assert written == {}


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="util-linux"), mapped_process({"ipc"}, MAPPINGS):
        pass
