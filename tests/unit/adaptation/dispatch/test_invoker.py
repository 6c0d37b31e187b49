"""A call of one plugin: answer, error, silence, and a lost connection."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nri
from nri.adaptation.dispatch.event import Event
from nri.adaptation.dispatch.invoker import with_plugin_name, without_plugin_name
from nri.api import messages as m
from nri.api.events import BY_METHOD, EventMask
from nri.errors import (
    ConnectionClosed,
    NriError,
    PluginClosed,
    PluginError,
    PluginRejected,
    PluginUnavailable,
    RpcError,
)
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Code
from tests.support.adapting import RawPlugin
from tests.support.made_plugins import Mode, Quiet, both, plugin
from tests.support.waiting import wait_for


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
        assert str(caught.value) == "plugin 10-quiet: ValueError: boom"
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


def test_a_refusal_names_its_plugin_and_keeps_the_plugin(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Answers(refuse))
    with pytest.raises(PluginRejected, match=r"^plugin 10-answers refused: no$") as caught:
        nri_runtime.start_container()
    assert (caught.value.plugin, caught.value.code) == ("10-answers", Code.PERMISSION_DENIED)
    assert isinstance(caught.value.__cause__, RpcError)
    assert nri_runtime.health("10-answers").state == "active"


def test_an_error_is_an_answer_that_resets_the_misses(nri_runtime: FakeRuntime) -> None:
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


def test_the_error_of_a_late_plugin_has_the_waiting_time(nri_runtime: FakeRuntime) -> None:
    go = threading.Event()
    nri_runtime.add(Answers(lambda: go.wait(20)))
    nri_runtime.timeout(0.02).start_container()
    go.set()
    assert nri_runtime.health("10-answers").last_error == "no answer to StartContainer within 0.02 s"


@pytest.mark.parametrize(("declared", "fails"), [(True, True), (False, False)])
def test_a_lost_connection_fails_the_request_if_the_policy_requires_it(declared: bool, fails: bool) -> None:
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
def test_a_skipped_plugin_is_not_called_and_fails_requests_that_require_it(required: bool) -> None:
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
                match="required for StartContainer, but skipped after 1 request without an answer",
            ):
                runtime.start_container()
        go.set()
        wait_for(lambda: calls, "the plugin, which may be slow, has begun with what it was asked")
    assert calls == [1]


def test_a_shadows_error_is_reported_and_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "nri.adaptation"),
        FakeRuntime(policy='["10-answers"]\nshadow = true') as runtime,
    ):
        runtime.add(Answers(refuse)).start_container()
    assert "shadow plugin 10-answers at StartContainer" in caplog.text
    assert "failed: " in caplog.text


def test_the_latency_of_an_answer_is_kept(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Answers(lambda: time.sleep(0.02)))
    nri_runtime.start_container()
    assert nri_runtime.health("10-answers").latency_s >= 0.02


@both
def test_a_declared_failure_policy_is_ignored_when_the_plugin_leaves_before_its_turn(mode: Mode) -> None:
    with FakeRuntime(compat=mode, policy='["20-raw"]\nfail_request = true') as runtime:
        raw = RawPlugin(runtime, idx="20", events=1 << BY_METHOD["start_container"].number - 1).join()

        def leave() -> None:
            raw.close()
            wait_for(lambda: runtime.health("20-raw").state == "gone", "it is gone")

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


def test_a_retried_plugin_that_misses_again_fails_no_request() -> None:
    with FakeRuntime(policy='[defaults]\nbreaker = { misses = 1, retry = "1ms" }\n') as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        with pytest.raises(NriError, match="10-hangs"):
            runtime.run_pod_sandbox()
        for _ in range(3):
            time.sleep(0.002)
            runtime.run_pod_sandbox()
        hangs.go.set()


def test_an_open_breaker_of_a_required_plugin_refuses_all_but_stop_and_remove() -> None:
    policy = '["10-hangs"]\nrequired = true\nbreaker = { misses = 1, retry = "1h" }\n'
    with FakeRuntime(policy=policy) as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        with pytest.raises(NriError, match="10-hangs"):
            runtime.start_container()
        for name, passed in outcomes(runtime).items():
            assert passed is (name in _DISPOSAL), name
        hangs.go.set()


#: One thing that a plugin does to a creation, which fails by it.
FAULTS: dict[str, Callable[..., Any]] = {
    "too much": lambda *_: nri.Adjustment().add_annotation("k", "x" * (3 << 20)),
    "not allowed": lambda *_: nri.Adjustment().add_mount("/a", "/b", options=["bind"]),
    "refused": lambda *_: _refuse(),
    "an error": lambda *_: {}[0],
}


def _refuse() -> None:
    raise nri.Reject("no")


@contextmanager
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def events() -> int:
    return sum(isinstance(entry, Event) for entry in gc.get_objects())


@both
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_reply_is_freed_with_its_error(fault: str, mode: Mode) -> None:
    """An error that a frame of its traceback refers to keeps the reply alive: 140 of them used 550 MiB."""
    policy = '["10-p"]\nallow.fields = ["annotations"]\n'
    with FakeRuntime(compat=mode, policy=policy) as runtime:
        runtime.timeout(20).add(plugin("p", create_container=FAULTS[fault]))
        refused = 0
        with without_collection():
            for _ in range(3):
                try:
                    runtime.create_container(make_pod(), make_container())
                except NriError:
                    refused += 1
            assert events() == 0
        assert refused == (0 if (fault, mode) == ("too much", "reference") else 3)


@both
@pytest.mark.parametrize("fan_out", ["", "StartContainer"])
def test_an_unanswered_request_is_freed_with_its_error(fan_out: str, mode: Mode) -> None:
    policy = "[defaults]\nfail_request = true\nkeep_connected = true\nbreaker = false\n"
    with FakeRuntime(compat=mode, policy=policy, fan_out=EventMask.of(fan_out) if fan_out else EventMask(0)) as runtime:
        raw = RawPlugin(runtime).join()
        runtime.timeout(0.02)
        with without_collection():
            for _ in range(3):
                try:
                    runtime.start_container()
                except NriError:
                    continue
                pytest.fail("it passed")
            assert events() == 0
        raw.close()


@pytest.mark.parametrize("validators", [1, 2])
def test_a_refused_creation_is_freed_with_the_validators_error(validators: int) -> None:
    with FakeRuntime() as runtime:
        runtime.timeout(20)
        for number in range(validators):
            refuses = plugin(f"p{number}", validate_container_adjustment=lambda *_: _refuse())
            runtime.add(refuses, idx=f"{number}0")
        with without_collection():
            with pytest.raises(NriError, match="no"):
                runtime.create_container(make_pod(), make_container())
            assert events() == 0


def test_updates_refused_by_policy_are_freed_with_their_error() -> None:
    def count_requests() -> int:
        return sum(type(entry) is m.UpdateContainersRequest for entry in gc.get_objects())

    created = plugin("p", start_container=lambda *_: None)
    with FakeRuntime(policy='["10-p"]\nallow.fields = ["annotations"]\n') as runtime:
        runtime.add(created)
        runtime.create_container(make_pod(), make_container(id="c"))
        with without_collection():
            before = count_requests()
            for _ in range(3):
                with pytest.raises(NriError, match="does not allow"):
                    created.runtime.update(nri.Update("c").set_memory_limit(1 << 20)).result(timeout=20)
            wait_for(lambda: count_requests() == before, "the refused requests are freed")


@pytest.mark.pure
def test_an_error_has_the_plugins_name_and_its_code() -> None:
    refused = with_plugin_name("10-a", RpcError(Code.PERMISSION_DENIED, "no"))
    assert (type(refused), str(refused), refused.plugin) == (PluginRejected, "plugin 10-a refused: no", "10-a")
    failed = with_plugin_name("10-a", RpcError(2, "boom"))
    assert (type(failed), failed.code, failed.message) == (PluginError, 2, "boom")
    assert str(with_plugin_name("10-a", ConnectionClosed("gone"))).startswith("plugin 10-a: ")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "remainder"),
    [("plugin 10-a: boom", "boom"), ("plugin 10-a refused: no", "no"), ("plugin 20-b: boom", "plugin 20-b: boom")],
)
def test_the_plugins_name_is_not_repeated_in_the_error(text: str, remainder: str) -> None:
    assert without_plugin_name("10-a", RpcError(2, text)).message == remainder
