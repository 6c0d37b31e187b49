"""Rules and pods in files, and an agent's socket that answers as told."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nri.service.http import Handler, Server, json_answer

SLO = """\
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: groupIdentity}
    lsClass: {cpuQOS: {enable: true, groupIdentity: 2}}
    beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
---
apiVersion: topology.node.k8s.io/v1alpha1
kind: NodeResourceTopology
metadata:
  annotations:
    node.koordinator.sh/cpu-shared-pools: '[{"socket": 0, "node": 0, "cpuset": "0-1"}]'
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  labels: {koordinator.sh/qosClass: LS}
  annotations: {node.koordinator.sh/resctrl: '{}'}
spec:
  containers:
    - name: app
      resources: {requests: {cpu: 500m}}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "slo.yaml").write_text(SLO)
    return folder


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    return path


@pytest.fixture
def agent_at() -> Iterator[Callable[[Mapping[str, Handler]], str]]:
    """Serve answers as an agent does; gives the path of its socket."""
    servers: list[Server] = []
    with tempfile.TemporaryDirectory(prefix="nri-agent-", dir="/tmp") as folder:

        def serve(handlers: Mapping[str, Handler]) -> str:
            path = f"{folder}/{len(servers)}/agent.sock"
            servers.append(Server(handlers, path=path))
            return path

        yield serve
        for server in servers:
            server.close()


def document(text: str) -> Any:
    return json.loads(text)


__all__ = ["document", "json_answer"]
