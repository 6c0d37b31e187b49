"""Validators: called last and concurrently; no answer is a refusal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nri
from nri.adaptation import BuiltinPlugin
from nri.adaptation.adaptation import parts_of
from nri.adaptation.dispatch.validation import validate
from nri.adaptation.peers.peer import Peer
from nri.adaptation.peers.state import State
from nri.api import messages as m
from nri.api.default_validator import ValidatorConfig
from nri.api.events import BY_METHOD
from nri.errors import DeadlineExceeded, NriError, PluginError, PluginTimeout, ValidationRejected
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin
from tests.support.made_plugins import Mode, both
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for

VALIDATION = BY_METHOD["validate_container_adjustment"].number


class Check(nri.Plugin):
    """Accepts, refuses with the text `refuse`, or is silent."""

    def __init__(self, refuse: str = "", *, silent: bool = False) -> None:
        self.refuse = refuse
        self.go = threading.Event()
        if not silent:
            self.go.set()
        self.requests: list[m.ValidateContainerAdjustmentRequest] = []

    def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
        self.requests.append(request)
        self.go.wait(20)
        if self.refuse:
            raise nri.Reject(self.refuse)


class Env(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("A", "1")


def test_a_validator_sees_the_original_container_the_result_and_the_owners(nri_runtime: FakeRuntime) -> None:
    check = Check()
    nri_runtime.add(check, idx="00").add(Env())
    nri_runtime.create_container(make_pod(name="web"), make_container(id="c1", env={"OLD": "1"}))
    (request,) = check.requests
    assert request.pod.name == "web"
    assert list(request.container.env) == ["OLD=1"]
    assert [pair.key for pair in request.adjust.env] == ["A"]
    assert request.owners.owners["c1"].compound[m.Field.Env].owners["A"] == "10-env"
    assert [(pair.index, pair.name) for pair in request.plugins] == [("10", "env")]


def test_a_refusal_is_an_error_with_plugin_and_reason(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Check(refuse="not here"))
    with pytest.raises(ValidationRejected) as caught:
        nri_runtime.create_container()
    assert str(caught.value) == 'validator "10-check" rejected container adjustment, reason: not here'
    assert (caught.value.plugin, caught.value.reason) == ("10-check", "not here")


def test_a_validator_without_a_timely_answer_fails_the_creation_and_stays(nri_runtime: FakeRuntime) -> None:
    check = Check(silent=True)
    nri_runtime.add(check).timeout(0.05)
    with pytest.raises(PluginError, match="validator plugin 10-check failed: deadline exceeded"):
        nri_runtime.create_container()
    assert nri_runtime.health("10-check").state == "late"
    check.go.set()


@pytest.mark.parametrize("shadow", [False, True])
def test_a_busy_validator_is_a_miss_and_decides_nothing_as_shadow(shadow: bool) -> None:
    policy = '["10-check"]\nshadow = true\n' if shadow else None
    with FakeRuntime(policy=policy) as runtime:
        check = Check(refuse="never")
        runtime.add(check).timeout(0.05)
        peer = parts_of(runtime.adaptation).registry.find("10-check")
        assert peer is not None
        peer.lock.acquire()
        try:
            if shadow:
                runtime.create_container()
            else:
                with pytest.raises(PluginTimeout, match=r"validator plugin 10-check failed: .*busy") as caught:
                    runtime.create_container()
                assert caught.value.plugin == "10-check"
        finally:
            peer.lock.release()
        assert (peer.breaker.missed, check.requests) == (1, [])
        assert "busy with earlier events" in runtime.health("10-check").last_error


def test_a_disconnected_validator_is_not_required(nri_runtime: FakeRuntime) -> None:
    check = Check(refuse="never")
    nri_runtime.add(check)
    with pytest.raises(ValidationRejected):
        nri_runtime.create_container()
    nri_runtime.disconnect()
    nri_runtime.create_container()
    assert len(check.requests) == 1


@pytest.mark.parametrize("several", [False, True])
def test_a_validator_that_leaves_during_the_event_fails_the_creation(nri_runtime: FakeRuntime, several: bool) -> None:
    """It was connected when the event began, and has not agreed to the result."""
    validator = RawPlugin(nri_runtime, "validator", "99", events=1 << VALIDATION - 1).join()

    class Kills(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            validator.close()
            wait_for(lambda: nri_runtime.health("99-validator").state == "gone", "the validator is gone")

    nri_runtime.add(Kills())
    if several:
        nri_runtime.add(Check(), idx="00")
    with pytest.raises(PluginError, match="99-validator disconnected before it was called"):
        nri_runtime.create_container()
    nri_runtime.disconnect("10-kills").create_container()


def test_a_validator_that_joins_during_an_event_is_called() -> None:
    """`synchronize` hangs, so events continue without the joining validator; its refusal must still count."""
    with FakeRuntime(request_timeout_s=2.0) as runtime:
        admission = parts_of(runtime.adaptation).handshake.admission
        original, go = admission.snapshot, threading.Event()
        admission.snapshot = lambda: (go.wait(20), original())[1]
        check = Check(refuse="never")

        class Lets(nri.Plugin):
            def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
                go.set()
                wait_for(lambda: parts_of(runtime.adaptation).chain.validators, "the validator has joined")

        go.set()
        runtime.add(Lets())
        go.clear()
        joining = threading.Thread(target=lambda: runtime.add(check, idx="50"))
        joining.start()
        wait_for(lambda: parts_of(runtime.adaptation).chain.gate.inside, "the validator is joining")
        with pytest.raises(ValidationRejected):
            runtime.adaptation.create_container(make_pod(), make_container())  # which holds no block_sync()
        joining.join()


def test_a_required_validator_that_just_left_fails_the_creation() -> None:
    with FakeRuntime(policy='["10-check"]\nrequired = true\n') as runtime:
        runtime.add(Check())
        adaptation = runtime.adaptation
        runtime.disconnect("10-check")
        parts_of(adaptation).chain.absent = ()
        parts_of(adaptation).chain.validators = (parts_of(adaptation).registry.find("10-check"),)
        with pytest.raises(PluginError, match="disconnected before it was called"):
            runtime.create_container()


def test_a_validator_with_an_open_breaker_fails_the_creation() -> None:
    policy = '["10-check"]\nbreaker = { misses = 1, retry = "60s" }\n'
    with FakeRuntime(policy=policy) as runtime:
        check = Check(silent=True)
        runtime.add(check).timeout(0.05)
        for text in ("deadline exceeded", "skipped after 1 request"):
            with pytest.raises(PluginError, match=f"validator plugin 10-check failed: .*{text}"):
                runtime.create_container()
        check.go.set()


def test_a_validator_is_not_called_after_a_failed_plugin(nri_runtime: FakeRuntime) -> None:
    class Fails(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            raise nri.Reject("no")

    check = Check()
    nri_runtime.add(check).add(Fails(), idx="20")
    with pytest.raises(PluginError, match="plugin 20-fails"):
        nri_runtime.create_container()
    assert check.requests == []


def test_a_shadow_validator_refuses_nothing() -> None:
    with FakeRuntime(policy='["10-check"]\nshadow = true\n') as runtime:
        check = Check(refuse="would not")
        runtime.add(check).create_container()
        assert len(check.requests) == 1, "it was not asked"


def test_filters_apply_to_validators() -> None:
    with FakeRuntime(policy='["10-check"]\nfilters = { namespace = ["web"] }\n') as runtime:
        runtime.add(Check(refuse="no"))
        runtime.create_container(make_pod(namespace="other"))
        with pytest.raises(ValidationRejected):
            runtime.create_container(make_pod(namespace="web"), make_container())


def test_the_first_of_several_refusals_counts() -> None:
    quick: list[threading.Thread] = []

    class Slow:
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> str:
            wait_for(lambda: quick and not quick[0].is_alive(), "the other one has refused")
            return "slow"

    class Quick:
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> str:
            quick.append(threading.current_thread())
            return "quick"

    builtin = [BuiltinPlugin("10", "slow", Slow()), BuiltinPlugin("20", "quick", Quick())]
    with FakeRuntime(builtin=builtin) as runtime, pytest.raises(ValidationRejected, match="reason: quick"):
        runtime.create_container()


def test_a_late_validator_raises_a_plugin_timeout(nri_runtime: FakeRuntime) -> None:
    check = Check(silent=True)
    nri_runtime.add(check).timeout(0.05)
    with pytest.raises(PluginTimeout) as caught:
        nri_runtime.create_container()
    assert caught.value.plugin == "10-check"
    check.go.set()


class FakeInvoker:
    """Stands in for the invoker: returns or raises the answer of a validator."""

    def __init__(self, answer: bytes | BaseException, *, missed: bool = True) -> None:
        self.answer, self.validators_missed = answer, missed

    def ask(self, *_: Any, **__: Any) -> bytes:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@contextmanager
def validators(count: int = 1, policy: str = "") -> Iterator[tuple[Peer, ...]]:
    """This number of validators, as the chain has them."""
    with FakeRuntime(policy=policy) as runtime:
        for number in range(count):
            runtime.add(Check(), idx=f"{number}0")
        yield parts_of(runtime.adaptation).chain.validators


def ask(
    answer: bytes | BaseException, peers: tuple[Peer, ...], deadline: float | None = None, *, missed: bool = True
) -> None:
    validate(FakeInvoker(answer, missed=missed), peers, b"", make_pod(), deadline)  # type: ignore[arg-type]


@pytest.mark.pure
def test_an_unreadable_verdict_is_a_refusal() -> None:
    with validators() as peers, pytest.raises(PluginError, match="plugin 00-check: its verdict is invalid"):
        ask(b"\xff\xff", peers)


@pytest.mark.pure
def test_an_unreadable_shadow_verdict_refuses_nothing() -> None:
    with validators(policy='["00-check"]\nshadow = true') as peers:
        ask(b"\xff\xff", peers)
        assert [peer.label for peer in peers] == ["00-check"], "it is asked"


@pytest.mark.pure
def test_a_validator_that_leaves_before_its_call_fails_the_creation_by_default() -> None:
    reject = m.ValidateContainerAdjustmentResponse(reject=True, reason="no").SerializeToString()
    with validators() as peers:
        with pytest.raises(ValidationRejected):
            ask(reject, peers)
        peers[0].state = State.GONE
        ask(reject, peers, missed=False)
        with pytest.raises(PluginError, match="00-check disconnected before it was called"):
            ask(reject, peers)
        peers[0].state = State.ACTIVE  # so that its connection is closed


@pytest.mark.pure
@pytest.mark.parametrize("count", [1, 2])
def test_the_callers_deadline_ends_the_wait_for_a_busy_validator(count: int) -> None:
    with validators(count) as peers:
        peers[0].lock.acquire(None)
        with pytest.raises(DeadlineExceeded):
            ask(b"", peers, time.monotonic() + 0.02)
        peers[0].lock.release()
        ask(b"", peers)


@pytest.mark.pure
def test_an_interrupt_in_a_validators_thread_reaches_the_caller() -> None:
    with validators(2) as peers, pytest.raises(KeyboardInterrupt):
        ask(KeyboardInterrupt(), peers)


def test_without_a_free_thread_validators_fail_the_creation_by_name(
    nri_runtime: FakeRuntime,
) -> None:
    first, second = Check(), Check()
    nri_runtime.add(first, idx="10", name="one").add(second, idx="20", name="two")
    with no_threads(), pytest.raises(PluginError, match="validator plugin 10-one failed: can't start") as caught:
        nri_runtime.create_container()
    assert "allow the runtime more threads: TasksMax of its unit" in str(caught.value)
    assert (caught.value.plugin, first.requests, second.requests) == ("10-one", [], [])
    nri_runtime.create_container()
    assert [len(entry.requests) for entry in (first, second)] == [1, 1]


def test_without_a_free_thread_a_shadow_validator_refuses_nothing() -> None:
    with FakeRuntime(policy='["10-check"]\nshadow = true\n["20-check"]\nshadow = true\n') as runtime:
        runtime.add(Check(refuse="no"), idx="10").add(Check(refuse="no"), idx="20")
        with no_threads():
            runtime.create_container()


@both
def test_lost_validators_refuse(mode: Mode) -> None:
    class Kills(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            validator.close()
            wait_for(lambda: runtime.health("99-validator").state == "gone", "the validator is gone")

    with FakeRuntime(compat=mode) as runtime:
        bit = 1 << m.Event.VALIDATE_CONTAINER_ADJUSTMENT - 1
        validator = RawPlugin(runtime, "validator", "99", events=bit).join()
        runtime.add(Kills())
        if mode == "reference":
            runtime.create_container()
        else:
            with pytest.raises(NriError, match="99-validator disconnected before it was called"):
                runtime.create_container()


@both
def test_indexed_names_exact(mode: Mode) -> None:
    class Creates(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    required = ValidatorConfig(enable=True, required_plugins=("10-guard",))
    with FakeRuntime(compat=mode, default_validator=required) as runtime:
        runtime.add(Creates(), idx="99", name="10-guard")
        if mode == "reference":
            runtime.create_container()
        else:
            with pytest.raises(NriError, match='required plugin "10-guard" not present'):
                runtime.create_container()
            runtime.add(Creates(), idx="10", name="guard").create_container()
