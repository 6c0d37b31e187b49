"""The pipe of a plugin's stderr: all output arrives in order, and nothing stays after the end."""

from __future__ import annotations

import os
import threading

import pytest

from nri.adaptation.launch.wasm.stderr import StderrPipe
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for


def test_output_arrives_soon_at_a_drain_or_at_the_end() -> None:
    chunks = list[bytes]()
    pipe = StderrPipe(chunks.append)
    with open(pipe.path, "wb", buffering=0) as file:
        pipe.opened()
        file.write(b"first")
        assert pipe.drain()
        assert b"".join(chunks) == b"first"
        file.write(b" second")
        wait_for(lambda: b"".join(chunks) == b"first second", "the thread's turn")
        file.write(b" last")
    pipe.close()
    assert b"".join(chunks) == b"first second last"
    assert not pipe.drain()


def test_output_larger_than_the_pipe_is_read_during_the_write() -> None:
    sizes = list[int]()
    pipe = StderrPipe(lambda data: sizes.append(len(data)))
    with open(pipe.path, "wb", buffering=0) as file:
        pipe.opened()
        data = memoryview(bytes(1 << 20))
        while data:
            data = data[file.write(data) :]
    pipe.close()
    assert sum(sizes) == 1 << 20


def test_without_a_free_thread_no_descriptor_stays_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with no_threads(), pytest.raises(RuntimeError):
        StderrPipe(lambda _: None)
    assert len(os.listdir("/proc/self/fd")) == before
    assert [thread for thread in threading.enumerate() if thread.name == "nri-wasm-stderr"] == []
