"""All groups of calls over one engine: every call of the CRI has its answer, or is known to have none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig, OciRuntime
from nri.engine.engine import Engine
from nri.engine.server.methods import Methods
from nri.engine.server.server import Server
from nri.engine.server.wiring import cri_server

#: Checkpoints, which the engine does not make.
UNANSWERED = {"CheckpointContainer", "CheckpointPod", "RestorePod"}


class NoStreams:
    """No address for exec and the like."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    nri = NriConfig(disable=True)
    runtimes = {"runc": OciRuntime(path="runc"), "crun": OciRuntime(path="crun")}
    config = EngineConfig(
        dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri, runtimes=runtimes,
        default_runtime="crun",
    )  # fmt: skip
    with Engine(config) as engine:
        made = cri_server(engine, NoStreams())  # type: ignore[arg-type]
        made.start()
        yield made
        made.stop()


def test_every_call_has_an_answer(server: Server) -> None:
    missing = set()
    for service in pb.DESCRIPTOR.services_by_name.values():
        missing |= set(Methods(service, server._groups).missing)
    assert missing == UNANSWERED


def test_status_tells_conditions_handlers_and_the_configuration(server: Server) -> None:
    with CriClient(str(server.path)) as client:
        found = client.call("Status", pb.StatusRequest(verbose=True))
    assert [row.type for row in found.status.conditions] == ["RuntimeReady", "NetworkReady"]
    handlers = {row.name: row.features for row in found.runtime_handlers}
    assert set(handlers) == {"", "runc", "crun"}
    assert handlers[""] == handlers["crun"]
    assert "default_runtime" in found.info["config"]
