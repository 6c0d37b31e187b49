"""The runtime side as a whole: its options, its start and its end."""

from __future__ import annotations

from nri.adaptation import Adaptation
from nri.errors import LocalProtocolError
from nri.testing import FakeRuntime, make_pod
from tests.support.made_plugins import Mode, Quiet, both


@both
def test_shutdown_is_sent(mode: Mode) -> None:
    plugin = Quiet()
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(plugin)
    assert plugin.told.is_set() is (mode == "default")


@both
def test_events_need_start(mode: Mode) -> None:
    adaptation = Adaptation(
        "r", "1", synchronize=lambda: ([], []), update=lambda updates: None, plugin_path="/nonexistent",
        disable_connections=True, policy_path=None, compat=mode,
    )  # fmt: skip

    def told() -> str:
        try:
            adaptation.run_pod_sandbox(make_pod())
        except LocalProtocolError as error:
            return str(error)
        return ""

    before = told()
    adaptation.start()
    between = told()
    adaptation.stop()
    if mode == "reference":
        assert [before, between, told()] == ["", "", ""]
    else:
        assert before == "RunPodSandbox: the adaptation has not been started: call start() first"
        assert (between, told()) == ("", "RunPodSandbox: the adaptation is stopped")
