"""The agent's program reports why it cannot start, with the next step."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.agent import program
from nri.agent.agent import Agent
from nri.agent.pods.source import KnownPods, PodList
from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from nri.config.settings import LoadedSettings
from nri.errors import ConfigError, NriError
from nri.service.daemon import raise_missing_extra
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def quiet_root() -> Iterator[None]:
    """The root logger as a new process has it; that and the handlers of signals as they were, afterwards."""
    root = logging.getLogger()
    kept_part, level = root.handlers[:], root.level
    root.handlers.clear()
    signals = {entry: signal.getsignal(entry) for entry in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for entry, handler in signals.items():
        signal.signal(entry, handler)
    root.handlers[:] = kept_part
    root.setLevel(level)


def loaded(folder: Path, **more: object) -> list[LoadedSettings[AgentSettings]]:
    source = {"root": str(folder), "socket": str(folder / "agent.sock"), "pods.source": "files", **more}
    flags = {key: ("--set", value) for key, value in source.items()}
    return [AGENT_SETTINGS.load("/dev/null", flags=flags, environment={})]


def test_without_root_the_agent_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NriError, match="must run as root"):
        program.run(loaded(tmp_path, root="/"))


def test_a_missing_module_of_the_package_is_not_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError):
        raise_missing_extra("the agent", ModuleNotFoundError("No module named 'nri.x'", name="nri.x"), "agent")


@pytest.mark.parametrize("absent", ["rules", "pods"])
def test_a_missing_path_of_rules_or_pods_is_logged_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise NriError("enough is seen")

    monkeypatch.setattr("nri.agent.program.Agent", refused)
    paths = {kind: tmp_path / kind for kind in ("rules", "pods")}
    paths["rules" if absent == "pods" else "pods"].touch()
    with pytest.raises(NriError):
        program.run(loaded(tmp_path, **{f"{kind}.path": str(path) for kind, path in paths.items()}))
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == [f"no {absent} until {paths[absent]} exists ({absent}.path)"]


def test_the_agent_does_not_start_beside_a_koordlet_and_suggests_a_fix(tmp_path: Path) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("koordlet\n")
    with pytest.raises(NriError, match=r"the agent cannot start: koordlet runs on this node \(pid 77\)"):
        program.run(loaded(tmp_path, modes=["nri"], gates={"BECPUSuppress": False, "CPUBurst": False}))


def test_a_part_is_logged_while_it_is_awaited_and_when_it_is_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nri.agent")
    (tmp_path / "rules").mkdir()
    pods, gates = PodList(), {"BECPUSuppress": False, "CPUBurst": False}
    settings = loaded(tmp_path, modes=["standalone"], gates=gates, **{"rules.path": str(tmp_path / "rules")})
    agent = Agent(settings[0].settings, pods=KnownPods(pods))
    ended = threading.Event()
    thread = threading.Thread(target=program.log_readiness, args=(agent, ended, 0.05))
    thread.start()

    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if "ready" in record.getMessage()]

    try:
        wait_for(lambda: any("pods is not ready yet" in message for message in messages()), lambda: f"{messages()}")
        pods.replace([])
        wait_for(lambda: "pods is ready: 0 pods" in messages(), lambda: f"{messages()}")
    finally:
        ended.set()
        thread.join()


def test_a_socket_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NriError, match=r"the agent cannot start: .*file/agent.sock"):
        program.run(
            loaded(tmp_path, socket=f"{tmp_path}/file/agent.sock", modes=["nri"],
                   gates={"BECPUSuppress": False, "CPUBurst": False}),
        )  # fmt: skip


def test_a_missing_root_folder_is_an_error_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"root: folder {tmp_path}/none not found"):
        program.run(loaded(tmp_path, root=str(tmp_path / "none")))
