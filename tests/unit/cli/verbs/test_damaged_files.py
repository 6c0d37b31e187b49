"""Truncated, damaged and foreign files through every verb that reads recordings."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import nri as package
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace import blocks
from nri.trace.recorder import Recorder
from tests.support.odd_blocks import odd_block

PLUGIN = """
import nri

class Looks(nri.Plugin):
    def create_container(self, pod, container):
        return None
"""
#: The verbs, with FILE for the recording.
VERBS = {
    "show": ("trace", "show", "FILE"),
    "stat": ("trace", "stat", "FILE"),
    "chrome": ("trace", "export", "FILE", "chrome"),
    "otlp": ("trace", "export", "FILE", "otlp"),
    "cut": ("trace", "cut", "FILE", "part.nritrace"),
    "replay": ("replay", "FILE", "--plugin", "10=looks.py"),
    "predict": ("predict", "FILE"),
    "inspect": ("inspect", "FILE", "--export", "page.html"),
}


class Looks(package.Plugin):
    """Changes nothing."""

    def create_container(self, pod: package.PodSandbox, container: package.Container) -> None: ...


@pytest.fixture(scope="module")
def recording_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of three containers, each in a separate block."""
    folder = tmp_path_factory.mktemp("recording_bytes")
    for name in ("one", "two", "three"):
        with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            runtime.add(Looks(), "10").create_container(make_pod(name="web"), make_container(name=name))
    first, *remaining = sorted(folder.iterdir())
    return first.read_bytes() + b"".join(entry.read_bytes()[len(blocks.MAGIC) :] for entry in remaining)


#: What is wrong with a file, and whether it is a trace at all.
WRONG: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "empty": (lambda recording_bytes: b"", True),
    "text": (lambda recording_bytes: b"what is this\n" * 100, False),
    "picture": (lambda recording_bytes: b"\x89PNG\r\n\x1a\n" + bytes(1000), False),
    "compressed": (gzip.compress, False),
    "one byte": (lambda recording_bytes: recording_bytes[:1], True),
    "half the magic": (lambda recording_bytes: recording_bytes[:5], True),
    "the magic alone": (lambda recording_bytes: blocks.MAGIC, True),
    "a newer version": (lambda recording_bytes: blocks.MAGIC + odd_block(version=2) * 3, True),
    "cut in a header": (lambda recording_bytes: recording_bytes[: len(blocks.MAGIC) + 20], True),
    "cut in a block": (lambda recording_bytes: recording_bytes[:-10], True),
    "zeros in the middle": (
        lambda recording_bytes: recording_bytes[:600] + bytes(len(recording_bytes) // 2) + recording_bytes[-600:],
        True,
    ),
    "a text in the middle": (lambda recording_bytes: recording_bytes[:300] + b"hello" + recording_bytes[305:], True),
    "something behind": (lambda recording_bytes: recording_bytes + b"\n<html>an error of a proxy</html>", True),
    "twice the magic": (lambda recording_bytes: blocks.MAGIC + recording_bytes, True),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "looks.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_file_is_reported_with_its_exit_code(
    nri, recording_bytes: bytes, folder: Path, verb: str, wrong: str
) -> None:
    damage, is_trace = WRONG[wrong]
    (folder / "file.nritrace").write_bytes(damage(recording_bytes))
    result = nri(*[word.replace("FILE", "file.nritrace") for word in VERBS[verb]])
    assert "Traceback" not in result.stderr
    assert "file.nritrace" in result.stderr
    problems = [line for line in result.stderr.splitlines() if "at byte" in line]
    assert len(set(problems)) == len(problems), "a problem is reported once"
    if wrong == "a newer version":
        assert [line for line in problems if "3 blocks of version 2" in line] == problems[:1] != []
    nothing = verb == "cut" and "none of its " in result.stderr
    assert result.returncode == (1 if is_trace and not nothing else 2), result.stderr
    if nothing:
        assert "at byte" in result.stderr, "what cannot be read is named, where nothing else is left"
    if verb == "chrome" and is_trace:
        assert "traceEvents" in json.loads(result.stdout)
    if verb == "otlp" and is_trace:
        assert all("resourceSpans" in json.loads(line) for line in result.stdout.splitlines())


@pytest.mark.parametrize("verb", VERBS)
def test_a_path_that_is_not_a_file_is_an_error(nri, folder: Path, verb: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    for place in ("pipe", "folder", "missing", "looks.py/below"):
        result = nri(*[word.replace("FILE", place) for word in VERBS[verb]])
        assert "Traceback" not in result.stderr
        assert (result.returncode, place in result.stderr) == (2, True), result.stderr
        assert place != "folder" or "write one with --record DIR" in result.stderr


def test_a_complete_file_has_no_error(nri, recording_bytes: bytes, folder: Path) -> None:
    (folder / "file.nritrace").write_bytes(recording_bytes)
    for verb, words in VERBS.items():
        result = nri(*[word.replace("FILE", "file.nritrace") for word in words])
        assert result.returncode == 0, (verb, result.stderr)
