"""A scripted HTTP server, and a client of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.kube.client import Apiserver, connect
from tests.support.http_server import HttpServer


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """The server."""
    with HttpServer().listening() as server:
        yield server


@pytest.fixture
def kubeconfig(server: HttpServer, tmp_path: Path) -> Path:
    """How to reach it."""
    path = tmp_path / "kubeconfig"
    tree = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(tree))
    return path


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Apiserver]:
    """The client."""
    with connect(kubeconfig) as endpoint:
        yield endpoint
