"""An engine can run the pod on the page about pods without a kubelet."""

from __future__ import annotations

import re
from pathlib import Path

from nri.config import Source
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.engine import Engine
from nri.pods.requests import Node, read_pods

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/pod.md"


def test_the_pod_on_the_page_can_be_created(tmp_path: Path) -> None:
    block = re.search(r"^```yaml file=web.yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert block, "the page has no web.yaml"
    (pod,) = read_pods(Source("web.yaml", block[1]), Node("node", str(tmp_path)))
    assert pod.notes == []
    assert pod.config.linux.security_context.namespace_options.network == pb.NODE, "as on the page"
    nri = NriConfig(disable=True)
    config = EngineConfig(dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri)
    with Engine(config) as engine:
        container_id = engine.container_creation.create(engine.pod_creation.run(pod.config), pod.containers[0].config)
        engine.container_start.start(container_id)
        assert engine.inventory.container(container_id).record.image == "docker.io/library/busybox:1.36"
