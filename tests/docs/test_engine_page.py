"""The pod and the container of the page about the engine are made by an engine as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.engine import Engine

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/engine.md"


def block(name: str) -> str:
    """A file of the page."""
    found = re.search(rf"^```json file={re.escape(name)}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"the page has no {name}"
    return found[1]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    nri = NriConfig(disable=True)
    config = EngineConfig(dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri)
    with Engine(config) as made:
        yield made


def test_the_pod_and_the_container_of_the_page_can_be_made(engine: Engine, tmp_path: Path) -> None:
    pod = json_format.Parse(block("pod.json"), pb.PodSandboxConfig())
    assert pod.linux.security_context.namespace_options.network == pb.NODE, "as the page says"
    pod.log_directory = str(tmp_path / "logs")
    container = json_format.Parse(block("container.json"), pb.ContainerConfig())
    made = engine.containers.create(engine.pods.run(pod), container)
    engine.containers.start(made)
    assert engine.containers.get(made).image == "docker.io/library/busybox:1.36"
