"""Pods from an apiserver, with scripted responses. Real apiservers: tests/apiserver."""

import json
import threading
import time
from pathlib import Path

import pytest

from nri.agent.pods.apiserver import ApiserverPods
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings
from nri.errors import ConfigError
from tests.support.http_server import HttpServer, page, status, stream


def pod(name: str, version: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}}


def kubeconfig(server: HttpServer, folder: Path) -> str:
    path = folder / "kubeconfig"
    tree = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(tree))
    return str(path)


def test_pods_of_this_node_are_watched(tmp_path: Path) -> None:
    hold = threading.Event()
    with HttpServer().listening() as server:
        added = json.dumps({"type": "ADDED", "object": pod("b", "8")}).encode() + b"\n"
        server.script(
            status(500, "not yet"),
            page(
                {
                    "metadata": {"resourceVersion": "7"},
                    "items": [pod("a", "5") | {"cgroupParent": "system.slice", "cgroups": {}}],
                }
            ),
            stream(added, hold=hold),
        )
        rules = RuleSettings(source="apiserver", kubeconfig=kubeconfig(server, tmp_path), node_name="n1")
        source, calls = ApiserverPods(AgentSettings(rules=rules)), []
        source.subscribe(lambda: calls.append(len(source.pods())))
        source.start()
        deadline = time.monotonic() + 10
        while len(source.pods()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        source.stop()
        hold.set()
    assert not any({"cgroupParent", "cgroups"} & pod.keys() for pod in source.pods()), (
        "our own key, which the API does not have"
    )
    assert [pod["metadata"]["name"] for pod in source.pods()] == ["a", "b"]
    assert (calls, source.synced, source.problem) == ([1, 2], True, "")
    assert server.asked[0]["query"]["fieldSelector"] == "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"


def test_an_unusable_kubeconfig_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        ApiserverPods(AgentSettings(rules=RuleSettings(kubeconfig=str(tmp_path / "none"))))
