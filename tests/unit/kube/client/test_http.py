"""The HTTP client: valid, invalid and changed credentials."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.errors import ConfigError, NriError
from nri.kube.client import PODS, Apiserver, ApiserverError, connect
from nri.kube.client.http import SharedClient, make_client
from tests.support.http_server import HttpServer, page, status

Closing = Callable[[Apiserver], Apiserver]
PAGE = {"metadata": {"resourceVersion": "7"}, "items": []}


@pytest.fixture
def closing() -> Iterator[Closing]:
    """Have a client closed at the end."""
    clients: list[Apiserver] = []

    def keep(api: Apiserver) -> Apiserver:
        clients.append(api)
        return api

    yield keep
    for client in clients:
        client.close()


def maker(kubeconfig: Path) -> Callable[[], Any]:
    return lambda: make_client(str(kubeconfig), "", "")


class Client:
    """Notes that it was closed."""

    base_url = "http://here"

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_client_is_replaced_after_an_error_and_closed_after_its_last_use() -> None:
    now, clients = [0.0], []

    def make() -> Client:
        clients.append(Client())
        return clients[-1]

    shared = SharedClient(make, lambda: now[0])
    with shared.borrow() as first:
        shared.doubt()
        with shared.borrow() as repeated:
            assert repeated is first
        now[0] = 31.0
        with shared.borrow() as second:
            assert second is not first
        with shared.borrow() as third:
            assert third is second
        assert first.closed == 0
    assert (first.closed, second.closed) == (1, 0)
    with shared.borrow():
        shared.close()
        assert second.closed == 0
    assert second.closed == 1
    with shared.borrow() as fourth:
        assert fourth not in (first, second)
    shared.close()
    assert [client.closed for client in clients] == [1, 1, 1]


def test_a_client_that_cannot_be_replaced_is_kept() -> None:
    now, clients = [0.0], [Client()]
    shared = SharedClient(clients.pop, lambda: now[0])
    shared.doubt()
    now[0] = 31.0
    with pytest.raises(IndexError), shared.borrow():
        pass
    with shared.borrow() as client:  # not at once again
        assert client.closed == 0


def test_after_a_refusal_credentials_are_read_again(server: HttpServer, kubeconfig: Path, closing: Closing) -> None:
    now = [0.0]
    api = closing(Apiserver(maker(kubeconfig), lambda: now[0]))
    server.script(status(401, "Unauthorized"), status(401, "Unauthorized"), page(PAGE))
    kubeconfig.write_text(kubeconfig.read_text().replace("secret", "renewed"))
    for _ in range(2):  # not at once again
        with pytest.raises(ApiserverError):
            api.list(PODS)
    now[0] = 31.0
    api.list(PODS)
    assert [request["headers"]["Authorization"] for request in server.asked] == ["Bearer secret"] * 2 + [
        "Bearer renewed"
    ]


def test_a_removed_kubeconfig_is_an_error_of_the_call(server: HttpServer, kubeconfig: Path, closing: Closing) -> None:
    now = [0.0]
    api = closing(Apiserver(maker(kubeconfig), lambda: now[0]))
    server.script(status(401, "Unauthorized"))
    with pytest.raises(ApiserverError):
        api.list(PODS)
    kubeconfig.unlink()
    now[0] = 31.0
    with pytest.raises(ApiserverError, match="not found"):
        api.list(PODS)


@pytest.mark.parametrize(
    "text", ["", "a: [", "clusters: []\ncontexts: []\n", "clusters: 1\ncontexts: 1\n", '{"current-context": "x"}']
)
def test_an_invalid_kubeconfig_is_a_config_error_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        connect(path)
    assert error.value.source == str(path)


def test_a_missing_kubeconfig_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        connect(tmp_path / "none")


def test_a_removed_token_is_an_error_of_the_call(server: HttpServer, tmp_path: Path, closing: Closing) -> None:
    token, kubeconfig = tmp_path / "token", tmp_path / "config"
    token.write_text("secret")
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
    user = {"name": "u", "user": {"tokenFile": str(token)}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    tree = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
    kubeconfig.write_text(json.dumps(tree))
    api = closing(connect(kubeconfig))
    token.unlink()
    with pytest.raises(ApiserverError, match="not found"):
        api.list(PODS)
    token.write_text("renewed")
    server.script(page(PAGE))
    api.list(PODS)
    assert server.asked[0]["headers"]["Authorization"] == "Bearer renewed"


def test_a_context_can_be_selected(server: HttpServer, kubeconfig: Path) -> None:
    with connect(kubeconfig, "x") as api:
        assert api.address == f"http://127.0.0.1:{server.port}"
    with pytest.raises(ConfigError, match="other"):
        connect(kubeconfig, "other")


def test_without_a_kubeconfig_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="specify a kubeconfig"):
        connect(account=str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "namespace").write_text("kube-system")
    (tmp_path / "ca.crt").write_text(Path(ssl.get_default_verify_paths().cafile or "").read_text())
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_PORT"):
        connect(account=str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with connect(account=str(tmp_path)) as api:
        assert api.address == "https://10.96.0.1"


def test_without_lightkube_the_error_has_the_install_command(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightkube.config", None)
    with pytest.raises(NriError, match=r"\.\[agent\]"):
        connect(kubeconfig)


def test_lightkube_is_loaded_only_when_it_is_used() -> None:
    words = (
        "import sys, nri.kube.client; print([name for name in sys.modules if name.startswith(('lightkube', 'httpx'))])"
    )
    process = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"
