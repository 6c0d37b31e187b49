"""Misbehaving launched processes, and a machine without free descriptors."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from nri.adaptation.launch.discovery import PluginFile
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.stderr_tail import MAX_LINES


def plugin(folder: Path, script: str) -> PluginFile:
    path = folder / "10-test"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return PluginFile(str(path), "10", "test")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_plugin_that_floods_stderr_is_still_supervised(tmp_path: Path) -> None:
    process = Process(plugin(tmp_path, "exec yes >&2"))
    looks: list[float] = []

    def look() -> float:
        looks.append(time.monotonic())
        return 0.01

    watcher = threading.Thread(target=process.wait, args=(look,), daemon=True)
    watcher.start()
    until = time.monotonic() + 10
    while len(looks) < 20 and time.monotonic() < until:
        time.sleep(0.01)
    count = len(looks)
    process.kill()
    watcher.join(10)
    process.socket.close()
    assert count >= 20, "nobody has looked after the plugin since it began to write"


def test_only_the_last_lines_are_kept(tmp_path: Path) -> None:
    process = Process(plugin(tmp_path, "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i >&2; done; exit 3"))
    process.wait(lambda: 1.0)
    process.socket.close()
    assert process.status == "exit code 3"
    assert process.last_words.splitlines() == [f"line {n}" for n in range(101 - MAX_LINES, 101)]


def test_an_endless_line_is_shortened_and_later_lines_are_kept(tmp_path: Path) -> None:
    process = Process(plugin(tmp_path, "head -c 200000 /dev/zero | tr '\\0' x >&2; echo >&2; echo next >&2"))
    process.wait(lambda: 1.0)
    process.socket.close()
    first, second = process.last_words.splitlines()
    assert (set(first.removesuffix("...")), second) == ({"x"}, "next")


@pytest.mark.parametrize("missing", ["pidfd_open", "eventfd", "posix_spawn"])
def test_a_launch_that_fails_halfway_leaves_nothing(tmp_path: Path, monkeypatch, missing: str) -> None:
    def no_more(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    started: list[int] = []
    spawn = os.posix_spawn
    monkeypatch.setattr(
        os, "posix_spawn", lambda *args, **options: started.append(spawn(*args, **options)) or started[0]
    )
    matches = plugin(tmp_path, "exec sleep 60")
    before = descriptors()
    monkeypatch.setattr(os, missing, no_more)
    with pytest.raises(OSError, match="Too many open files"):
        Process(matches)
    assert descriptors() == before, "descriptors are lost whenever there are too few of them"
    assert not [pid for pid in started if os.path.exists(f"/proc/{pid}")], "a plugin runs that nobody watches"
