"""Asking one plugin: what comes of an answer, an error, silence, and a connection that is lost."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

import nri
from nri.api.events import BY_METHOD
from nri.errors import NriError, PluginClosed, PluginError, PluginRejected, PluginUnavailable, RpcError
from nri.testing import FakeRuntime, make_container
from nri.ttrpc import Code
from tests.support.adapting import RawPlugin, eventually
from tests.support.made_plugins import Mode, Quiet, both


@both
def test_errors_name_plugin(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Quiet())
        with pytest.raises(NriError) as caught:
            runtime.start_container(None, make_container(name="bad"))
    if mode == "reference":  # the name is the plugin's own word, which is all that such a runtime's users get
        assert str(caught.value) == "rpc error: code = Unknown desc = plugin 10-quiet: ValueError: boom"
        assert isinstance(caught.value, RpcError)
    else:
        assert str(caught.value) == "plugin 10-quiet: rpc error: code = Unknown desc = ValueError: boom"
        assert isinstance(caught.value, PluginError)


@both
def test_late_answer_costs_event(mode: Mode) -> None:
    go = threading.Event()
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Answers(lambda: go.wait(20))).timeout(0.02)
        runtime.start_container()
        assert runtime.health("10-answers").state == ("late" if mode == "default" else "gone")
        go.set()


class Answers(nri.Plugin):
    """Answers StartContainer by a function."""

    def __init__(self, answer: Any = lambda: None) -> None:
        self.answer = answer

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.answer()


def refuse() -> None:
    raise nri.Reject("no")


def test_a_refusal_names_its_plugin_and_the_plugin_stays(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Answers(refuse))
    with pytest.raises(PluginRejected, match=r"^plugin 10-answers refused: no$") as caught:
        nri_runtime.start_container()
    assert (caught.value.plugin, caught.value.code) == ("10-answers", Code.PERMISSION_DENIED)
    assert isinstance(caught.value.__cause__, RpcError)
    assert nri_runtime.health("10-answers").state == "active"


def test_an_error_is_an_answer_that_ends_a_row_of_misses(nri_runtime: FakeRuntime) -> None:
    go = threading.Event()
    work: list[Any] = [refuse, lambda: go.wait(20)]

    def next_one() -> None:
        work.pop()()

    nri_runtime.add(Answers(next_one))
    nri_runtime.timeout(0.02).start_container()
    assert (nri_runtime.health("10-answers").state, nri_runtime.health("10-answers").missed) == ("late", 1)
    go.set()
    with pytest.raises(PluginRejected):
        nri_runtime.timeout(20).start_container()
    row = nri_runtime.health("10-answers")
    assert (row.state, row.missed) == ("active", 0)


def test_a_late_plugin_says_for_how_long_it_was_waited(nri_runtime: FakeRuntime) -> None:
    go = threading.Event()
    nri_runtime.add(Answers(lambda: go.wait(20)))
    nri_runtime.timeout(0.02).start_container()
    go.set()
    assert nri_runtime.health("10-answers").last_error == "no answer to StartContainer within 0.02 s"


@pytest.mark.parametrize(("declared", "fails"), [(True, True), (False, False)])
def test_a_lost_connection_fails_the_request_if_the_policy_says_so(declared: bool, fails: bool) -> None:
    policy = f'["10-raw"]\nfail_request = {str(declared).lower()}'
    with FakeRuntime(policy=policy) as runtime:
        raw = RawPlugin(runtime, events=1 << BY_METHOD["start_container"].number - 1).join()
        leaving = threading.Thread(target=lambda: (raw.wait_for(b"StartContainer"), raw.close()))
        leaving.start()
        if fails:
            with pytest.raises(
                PluginClosed, match=r"^plugin 10-raw failed to handle StartContainer request: "
            ) as caught:
                runtime.start_container()
            assert caught.value.plugin == "10-raw"
        else:
            runtime.start_container()
        leaving.join(20)
        assert (runtime.health("10-raw").state, runtime.health("10-raw").missed) == ("gone", 1)


@pytest.mark.parametrize("required", [True, False])
def test_a_plugin_that_is_left_out_is_not_called_and_fails_what_it_is_required_for(required: bool) -> None:
    calls: list[int] = []
    policy = f'["10-answers"]\nbreaker = {{ misses = 1, retry = "60s" }}\nrequired = {str(required).lower()}'
    go = threading.Event()
    with FakeRuntime(policy=policy) as runtime:
        runtime.add(Answers(lambda: (calls.append(1), go.wait(20)))).timeout(0.02)
        for _ in range(2):
            if required:
                with pytest.raises(PluginError, match="10-answers"):
                    runtime.start_container()
            else:
                runtime.start_container()
        if required:
            with pytest.raises(
                PluginUnavailable,
                match="required for StartContainer, but left out after 1 requests without an answer",
            ):
                runtime.start_container()
        go.set()
        eventually(lambda: calls, "the plugin, which may be slow, has begun with what it was asked")
    assert calls == [1]


def test_a_shadows_error_is_reported_and_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "nri.adaptation"),
        FakeRuntime(policy='["10-answers"]\nshadow = true') as runtime,
    ):
        runtime.add(Answers(refuse)).start_container()
    assert "shadow plugin 10-answers at StartContainer" in caplog.text
    assert "failed: " in caplog.text


def test_how_long_an_answer_took_is_kept(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Answers(lambda: time.sleep(0.02)))
    nri_runtime.start_container()
    assert nri_runtime.health("10-answers").latency_s >= 0.02


def test_a_plugin_that_leaves_while_the_event_is_on_its_way_to_it_fails_nothing_by_what_it_declared() -> None:
    with FakeRuntime(policy='["20-raw"]\nfail_request = true') as runtime:
        raw = RawPlugin(runtime, idx="20", events=1 << BY_METHOD["start_container"].number - 1).join()

        def leave() -> None:
            raw.close()
            eventually(lambda: runtime.health("20-raw").state == "gone", "it is gone")

        runtime.add(Answers(leave), idx="10")
        runtime.start_container()
        assert runtime.health("20-raw").state == "gone", "it was to leave in the middle of the event"


class Hangs(nri.Plugin):
    """Declares that it must be asked, and does not answer."""

    failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)

    def __init__(self) -> None:
        self.go = threading.Event()

    def _wait(self, *_: object) -> None:
        self.go.wait(20)

    run_pod_sandbox = start_container = stop_container = stop_pod_sandbox = _wait
    remove_container = remove_pod_sandbox = create_container = _wait


def outcomes(runtime: FakeRuntime) -> dict[str, bool]:
    """Which events of a pod pass, Run before Stop before Remove."""
    passed = {}
    for name in ("run_pod_sandbox", "start_container", "stop_container", "remove_container",
                 "stop_pod_sandbox", "remove_pod_sandbox"):  # fmt: skip
        try:
            getattr(runtime, name)()
        except NriError:
            passed[name] = False
        else:
            passed[name] = True
    return passed


_DISPOSAL = {"stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox"}


@both
def test_declared_failure_spares_stop(mode: Mode) -> None:
    with FakeRuntime(compat=mode, policy="[defaults]\nbreaker = false\n") as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        for name, passed in outcomes(runtime).items():
            assert passed is (mode == "default" and name in _DISPOSAL), name
        hangs.go.set()


@both
def test_open_breaker_lets_go(mode: Mode) -> None:
    with FakeRuntime(compat=mode, policy='[defaults]\nbreaker = { misses = 2, retry = "1h" }\n') as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        for _ in range(2):
            with pytest.raises(NriError, match="10-hangs"):
                runtime.start_container()
        assert runtime.health("10-hangs").state == "open"
        assert set(outcomes(runtime).values()) == {mode == "default"}
        hangs.go.set()


def test_the_request_on_which_a_plugin_is_tried_again_passes_as_if_it_were_left_out() -> None:
    with FakeRuntime(policy='[defaults]\nbreaker = { misses = 1, retry = "1ms" }\n') as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        with pytest.raises(NriError, match="10-hangs"):
            runtime.run_pod_sandbox()
        for _ in range(3):
            time.sleep(0.002)
            runtime.run_pod_sandbox()
        hangs.go.set()


def test_what_the_operator_requires_is_refused_by_an_open_breaker_and_stop_and_remove_pass() -> None:
    policy = '["10-hangs"]\nrequired = true\nbreaker = { misses = 1, retry = "1h" }\n'
    with FakeRuntime(policy=policy) as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        with pytest.raises(NriError, match="10-hangs"):
            runtime.start_container()
        for name, passed in outcomes(runtime).items():
            assert passed is (name in _DISPOSAL), name
        hangs.go.set()
