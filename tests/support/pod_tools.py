"""The steps of a person without crictl, on any runtime: describe, copy, forward a port, watch events, list images."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pod_verbs import Verbs
from tools.runtimes.images import BUSYBOX

SHOP = f"""
kind: Pod
metadata: {{name: shop, namespace: trade, labels: {{app: shop}}}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: {BUSYBOX}
    command: [sh, -c, "trap exit TERM; while true; do sleep 0.1; done"]
    resources: {{limits: {{memory: 64Mi, cpu: 500m}}}}
"""


def check_tools(verbs: Verbs, folder: Path, *, half_close: bool) -> None:
    """Run a pod and use every verb on it. The pod is left to the caller.

    `half_close` is whether the runtime passes on the end of a forwarded connection's input before its output ends.
    """
    with running(verbs, "events", "-n", "trade", "-o", "json") as watcher:
        result = verbs.run(SHOP)
        assert result.returncode == 0, result.stderr
        _check_description(verbs)
        _check_copies(verbs, folder)
        _check_forwarding(verbs, half_close=half_close)
        _check_images(verbs)
        assert verbs("stop", "-l", "app=shop", "-n", "trade").stdout == b"trade/shop\n"
        assert watcher.stdout is not None
        kinds: list[str] = []
        while "CONTAINER_STOPPED_EVENT" not in kinds:
            event = json.loads(watcher.stdout.readline())
            if event["container"] == "app":
                kinds.append(event["containerEventType"])
                assert event["pod"] == "trade/shop"
    assert kinds == ["CONTAINER_CREATED_EVENT", "CONTAINER_STARTED_EVENT", "CONTAINER_STOPPED_EVENT"]
    stopped = verbs("port-forward", "shop", ":80")
    assert stopped.stderr == b"error: pod trade/shop is not ready: it was stopped\n"


@contextmanager
def running(verbs: Verbs, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A verb that runs until the end of the block."""
    with verbs.begin(*words) as process:
        try:
            yield process
        finally:
            process.terminate()


def _check_description(verbs: Verbs) -> None:
    text = verbs("describe", "-l", "app in (shop,other)").stdout.decode()
    rows = dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)
    assert {key: rows[key].strip() for key in ("Name", "Namespace", "Labels")} == {
        "Name": "shop", "Namespace": "trade", "Labels": "app=shop"
    }  # fmt: skip
    assert "cpu: 500m" in text and "memory: 64 MiB" in text and "running" in text
    assert json.loads(verbs("describe", "shop", "-o", "json").stdout)[0]["pod"] == "trade/shop"
    assert verbs("ps", "-l", "app!=shop", "-q").stdout == b""
    wrong = verbs("describe", "-n", "default", "shop")
    assert wrong.stderr == b'error: no pod "shop" with -n default, but there is trade/shop\n'


def _check_copies(verbs: Verbs, folder: Path) -> None:
    tree = folder / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep/big").write_bytes(os.urandom(3_000_000))
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o751)
    long_name = "n" * 180
    (tree / long_name).write_text("long\n")
    (tree / "link").symlink_to("/etc/passwd")
    into = verbs("cp", str(tree), "shop:/copy")
    assert into.returncode == 0, into.stderr
    assert verbs("exec", "shop", "stat", "-c", "%a", "/copy/run").stdout == b"751\n"
    back = verbs("cp", "trade/shop:/copy", "./back")
    assert back.returncode == 0 and b"skipped ./copy/link: symbolic link" in back.stderr, back.stderr
    assert (folder / "back/deep/big").read_bytes() == (tree / "deep/big").read_bytes()
    assert (folder / "back/run").stat().st_mode & 0o777 == 0o751
    assert (folder / "back" / long_name).read_text() == "long\n"
    assert not (folder / "back/link").is_symlink()
    single = verbs("cp", "-c", "app", str(tree / "run"), "shop:/copy/deep")
    assert single.returncode == 0, single.stderr
    assert verbs("exec", "shop", "cat", "/copy/deep/run").stdout == b"#!/bin/sh\n"
    missing = verbs("cp", "shop:/none", ".")
    assert missing.returncode == 1 and missing.stderr.startswith(b"error: /none: tar: "), missing.stderr
    too_large = verbs("cp", "shop:/copy", "./small", "--max-size", "1")
    assert too_large.returncode == 1 and b"set another limit with --max-size" in too_large.stderr


def _check_forwarding(verbs: Verbs, *, half_close: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = ("port-forward", "shop", f":{server.getsockname()[1]}")
        with running(verbs, *words) as forwarder:
            assert forwarder.stdout is not None and forwarder.stderr is not None
            match = re.fullmatch(rb"Forwarding from 127.0.0.1:(\d+) -> \d+\n", forwarder.stdout.readline())
            assert match is not None
            for _ in range(3):
                _exchange(server, int(match[1]), half_close=half_close)
            server.close()
            with socket.create_connection(("127.0.0.1", int(match[1])), 30) as client:
                client.settimeout(30)
                assert client.recv(1) == b""
            lines = [forwarder.stderr.readline() for _ in range(5)]
    assert lines[:4] == [b"Handling connection for %s\n" % match[1]] * 4, lines
    assert lines[4].startswith(b"port ") and b"error forwarding" in lines[4], lines


def _exchange(server: socket.socket, port: int, *, half_close: bool) -> None:
    """Send a question to a forwarded port, perhaps with the end of input, and read the whole answer."""
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        client.settimeout(30)
        client.sendall(b"question" * 100_000)
        if half_close:
            client.shutdown(socket.SHUT_WR)
        inside = server.accept()[0]
        with inside, inside.makefile("rb") as question:
            assert len(question.read(-1 if half_close else 800_000)) == 800_000
            inside.sendall(b"answer" * 100_000)
        with client.makefile("rb") as answer:
            assert len(answer.read()) == 600_000


def _check_images(verbs: Verbs) -> None:
    listed = json.loads(verbs("images", BUSYBOX, "-o", "json").stdout)
    assert BUSYBOX in listed[0]["repoTags"]
    assert listed[0]["id"].encode() in verbs("images", "-q").stdout
    used = verbs("rmi", BUSYBOX)
    assert used.returncode == 1 and b"is used by container" in used.stderr
    missing = verbs("rmi", "nowhere.example/none:1")
    assert missing.stderr == b'error: no image "nowhere.example/none:1". try: nri pod images\n'
    unknown = verbs("pull", "127.0.0.1:1/none:1")
    assert unknown.returncode == 1 and unknown.stderr.startswith(b"error: image 127.0.0.1:1/none:1: ")
