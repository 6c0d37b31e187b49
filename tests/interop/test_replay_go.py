"""A recorded container under ten plugins, one of them in Go, is replayed with the same and another plugin."""

from __future__ import annotations

from pathlib import Path

import nri
from nri.testing import FakeRuntime, Replay, make_container, make_pod
from nri.trace.recorder import Recorder
from tests.peers.drivers import PATIENCE_S, GoPlugin
from tests.support.made_plugins import plugin

GO = {"CreateContainer": {"adjust": {"env": [{"key": "FROM_GO", "value": "1"}]}}}
OTHER = {"CreateContainer": {"adjust": {"env": [{"key": "FROM_GO", "value": "2"}]}}}
INDICES = [f"{number}0" for number in range(1, 10)]


def env_plugin(index: str) -> nri.Plugin:
    """A plugin that sets its own variable; plugin 50 also replaces the variable of plugin 40."""

    def create(pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        adjustment = nri.Adjustment().add_env(f"FROM_{index}", pod.name)
        return adjustment.remove_env("FROM_40").add_env("FROM_40", "taken") if index == "50" else adjustment

    return plugin(f"p{index}", create_container=create)


def replay_differences(folder: Path, script: dict[str, object]) -> list[str]:
    with Replay(folder, socket_path=str(folder / "nri.sock")) as replay:
        for index in INDICES:
            replay.add(env_plugin(index), index, f"p{index}")
        with GoPlugin(replay.socket_path, idx="05", name="go", on=script):
            assert replay.adaptation.ready(["05-go"], PATIENCE_S)
            return replay.differences()


def test_a_replay_with_the_same_plugins_matches_and_another_go_plugin_is_a_difference(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    with (
        Recorder(folder, redact=False) as recorder,
        FakeRuntime(reporters=[recorder], socket_path=str(tmp_path / "nri.sock")) as runtime,
    ):
        for index in INDICES:
            runtime.add(env_plugin(index), index, f"p{index}")
        with GoPlugin(runtime.socket_path, idx="05", name="go", on=GO):
            assert runtime.adaptation.ready(["05-go"], PATIENCE_S)
            pod = make_pod(name="web", namespace="shop")
            container = make_container(pod=pod, name="app")
            assert len(runtime.create_container(pod, container).env) == 10
            runtime.start_container(pod, container)
    assert replay_differences(folder, GO) == []
    assert replay_differences(folder, OTHER) == ['CreateContainer shop/web/app: Env FROM_GO: recorded "1"; now "2"']
