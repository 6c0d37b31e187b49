"""`nri inspect`: a served page or a file, of a runtime or a recording."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.recorder import Recorder
from tests.support.made_plugins import plugin
from tests.support.needs import need_root


@pytest.fixture
def node() -> Iterator[tuple[str, str]]:
    """An admin socket, and the folder of a recording."""
    with tempfile.TemporaryDirectory(prefix="nri-inspect-", dir="/tmp") as folder:
        socket, traces = f"{folder}/admin.sock", f"{folder}/traces"
        with FakeRuntime(admin_socket=socket) as runtime:
            with Recorder(traces) as recorder, FakeRuntime(reporters=[recorder]) as other:
                other.add(plugin("one", create_container=lambda *_: None))
                other.create_container(make_pod(name="web"), make_container(name="app"))
            runtime.add(plugin("two", create_container=lambda *_: None))
            yield socket, traces


def served(*words: str) -> tuple[dict[str, object], int]:
    """Start it, ask the page that it prints for its overview, interrupt it; the overview, and its exit code."""
    command = [sys.executable, "-m", "nri", "inspect", "-o", "json", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, _, token = json.loads(process.stdout.readline())["url"].removeprefix("http://").partition("/#token=")
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("GET", "/api/overview", headers={"Authorization": f"Bearer {token}"})
        overview = json.loads(connection.getresponse().read())
        connection.close()
        process.send_signal(signal.SIGINT)
        return overview, process.wait(20)


def test_a_runtime_is_shown_until_it_is_interrupted(node: tuple[str, str]) -> None:
    overview, code = served("--admin-socket", node[0])
    assert (overview["mode"], overview["title"], code) == ("live", node[0], 130)
    assert [row["plugin"] for row in overview["plugins"]] == ["10-two"]  # type: ignore[attr-defined]


def test_a_recording_is_shown(node: tuple[str, str]) -> None:
    overview, code = served(node[1])
    assert (overview["mode"], overview["title"], code) == ("recording", node[1], 130)


def test_a_snapshot_is_one_file(nri, node, tmp_path):
    for words in ([node[1]], ["--admin-socket", node[0]]):
        result = nri("inspect", *words, "--export", str(tmp_path / "node.html"))
        assert result.returncode == 0, result.stderr
        assert '"mode": "snapshot"' in Path(tmp_path, "node.html").read_text()


def test_a_recording_is_shown_even_if_the_environment_names_a_runtime(nri, node, tmp_path):
    result = nri("inspect", node[1], "--export", str(tmp_path / "node.html"), env={"NRI_ADMIN_SOCKET": node[0]})
    assert result.returncode == 0, result.stderr
    assert Path(tmp_path, "node.html").is_file()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--admin-socket", "/nonexistent/a.sock"], 3, "cannot connect to /nonexistent/a.sock"),
        (["/nonexistent/traces"], 2, "/nonexistent/traces"),
        (["/tmp", "--admin-socket", "/x"], 2, "not both"),
    ],
)
def test_an_error_is_one_line(nri, words, code, text):
    result = nri("inspect", *words)
    assert (result.returncode, text in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr


def test_a_snapshot_replaces_no_device_or_link(nri, node, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("page.html")
    result = nri("inspect", node[1], "--export", str(tmp_path / "pipe"))
    assert result.stderr == f"error: cannot write {tmp_path}/pipe: not a regular file: choose another file\n"
    assert (result.returncode, (tmp_path / "pipe").is_fifo()) == (1, True)
    assert nri("inspect", node[1], "--export", str(tmp_path / "link")).returncode == 0
    assert (tmp_path / "link").is_symlink() and "snapshot" in (tmp_path / "page.html").read_text()


def test_a_snapshot_does_not_follow_a_link_of_another_user(nri, node, tmp_path):
    need_root()
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "page.html").symlink_to("victim")
    os.lchown(tmp_path / "page.html", 4711, 4711)
    result = nri("inspect", node[1], "--export", str(tmp_path / "page.html"))
    assert (
        result.stderr == f"error: cannot write {tmp_path}/page.html: "
        "the path is a link that belongs to another user: choose another file\n"
    )
    assert (result.returncode, (tmp_path / "victim").read_text()) == (1, "mine")


def test_unwritable_files_and_invalid_addresses_are_errors(nri, node):
    result = nri("inspect", node[1], "--export", "/nonexistent/node.html")
    assert (result.returncode, result.stderr.count("/nonexistent/node.html")) == (1, 1), result.stderr
    assert "not HOST:PORT" in nri("inspect", node[1], "--listen", "here").stderr
