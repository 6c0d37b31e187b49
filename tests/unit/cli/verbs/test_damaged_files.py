"""Files that are cut, damaged or of another kind, through every verb that reads recordings: told in lines."""

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
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of three containers, in blocks of their own."""
    folder = tmp_path_factory.mktemp("whole")
    for name in ("one", "two", "three"):
        with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            runtime.add(Looks(), "10").create_container(make_pod(name="web"), make_container(name=name))
    first, *rest = sorted(folder.iterdir())
    return first.read_bytes() + b"".join(each.read_bytes()[len(blocks.MAGIC) :] for each in rest)


#: What is wrong with a file, and whether it is a trace at all.
WRONG: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "empty": (lambda whole: b"", True),
    "text": (lambda whole: b"what is this\n" * 100, False),
    "picture": (lambda whole: b"\x89PNG\r\n\x1a\n" + bytes(1000), False),
    "compressed": (gzip.compress, False),
    "one byte": (lambda whole: whole[:1], True),
    "half the magic": (lambda whole: whole[:5], True),
    "the magic alone": (lambda whole: blocks.MAGIC, True),
    "a newer version": (lambda whole: blocks.MAGIC + odd_block(version=2) * 3, True),
    "cut in a header": (lambda whole: whole[: len(blocks.MAGIC) + 20], True),
    "cut in a block": (lambda whole: whole[:-10], True),
    "zeros in the middle": (lambda whole: whole[:600] + bytes(len(whole) // 2) + whole[-600:], True),
    "a text in the middle": (lambda whole: whole[:300] + b"hello" + whole[305:], True),
    "something behind": (lambda whole: whole + b"\n<html>an error of a proxy</html>", True),
    "twice the magic": (lambda whole: blocks.MAGIC + whole, True),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "looks.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_that_is_not_whole_is_named_with_its_exit_code(
    nri, whole: bytes, here: Path, verb: str, wrong: str
) -> None:
    damage, is_trace = WRONG[wrong]
    (here / "file.nritrace").write_bytes(damage(whole))
    done = nri(*[word.replace("FILE", "file.nritrace") for word in VERBS[verb]])
    assert "Traceback" not in done.stderr
    assert "file.nritrace" in done.stderr
    problems = [line for line in done.stderr.splitlines() if "at byte" in line]
    assert len(set(problems)) == len(problems), "a problem is told once"
    if wrong == "a newer version":
        assert [line for line in problems if "3 blocks of version 2" in line] == problems[:1] != []
    nothing = verb == "cut" and "none of its " in done.stderr
    assert done.returncode == (1 if is_trace and not nothing else 2), done.stderr
    if nothing:
        assert "at byte" in done.stderr, "what cannot be read is named, where nothing else is left"
    if verb == "chrome" and is_trace:
        assert "traceEvents" in json.loads(done.stdout)
    if verb == "otlp" and is_trace:
        assert all("resourceSpans" in json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_file_is_named(nri, here: Path, verb: str) -> None:
    os.mkfifo(here / "pipe")
    (here / "folder").mkdir()
    for place in ("pipe", "folder", "missing", "looks.py/below"):
        done = nri(*[word.replace("FILE", place) for word in VERBS[verb]])
        assert "Traceback" not in done.stderr
        assert (done.returncode, place in done.stderr) == (2, True), done.stderr
        assert place != "folder" or "write one with --record DIR" in done.stderr


def test_a_whole_file_is_none_of_these(nri, whole: bytes, here: Path) -> None:
    (here / "file.nritrace").write_bytes(whole)
    for verb, words in VERBS.items():
        done = nri(*[word.replace("FILE", "file.nritrace") for word in words])
        assert done.returncode == 0, (verb, done.stderr)
