"""The errors that a request fails with because of a plugin: what they say, and that nothing is kept by them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nri
from nri.adaptation.dispatch.event import Event
from nri.adaptation.dispatch.failures import named, unnamed
from nri.api import messages as m
from nri.api.events import EventMask
from nri.errors import ConnectionClosed, NriError, PluginError, PluginRejected, RpcError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Code
from tests.support.adapting import RawPlugin, eventually
from tests.support.made_plugins import Mode, both, plugin

#: One thing that a plugin does to a creation, which fails by it.
FAULTS: dict[str, Callable[..., Any]] = {
    "too much": lambda *_: nri.Adjustment().add_annotation("k", "x" * (3 << 20)),
    "not allowed": lambda *_: nri.Adjustment().add_mount("/a", "/b"),
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
    return sum(isinstance(each, Event) for each in gc.get_objects())


@both
@pytest.mark.parametrize("fault", FAULTS)
def test_what_failed_is_freed_with_its_error(fault: str, mode: Mode) -> None:
    """An error that is held by a frame of its own traceback keeps the reply: 140 of them held 550 MiB."""
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
def test_what_was_not_answered_is_freed_with_its_error(fan_out: str, mode: Mode) -> None:
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
def test_what_a_validator_refused_is_freed_with_its_error(validators: int) -> None:
    with FakeRuntime() as runtime:
        runtime.timeout(20)
        for number in range(validators):
            refuses = plugin(f"p{number}", validate_container_adjustment=lambda *_: _refuse())
            runtime.add(refuses, idx=f"{number}0")
        with without_collection():
            with pytest.raises(NriError, match="no"):
                runtime.create_container(make_pod(), make_container())
            assert events() == 0


def test_updates_that_policy_refuses_are_freed_with_their_error() -> None:
    def held() -> int:
        return sum(type(each) is m.UpdateContainersRequest for each in gc.get_objects())

    made = plugin("p", start_container=lambda *_: None)
    with FakeRuntime(policy='["10-p"]\nallow.fields = ["annotations"]\n') as runtime:
        runtime.add(made)
        runtime.create_container(make_pod(), make_container(id="c"))
        with without_collection():
            before = held()
            for _ in range(3):
                with pytest.raises(NriError, match="does not allow"):
                    made.runtime.update(nri.Update("c").set_memory_limit(1 << 20)).result(timeout=20)
            eventually(lambda: held() == before, "what was refused is freed")


@pytest.mark.pure
def test_an_error_carries_the_plugins_name_and_its_code() -> None:
    refused = named("10-a", RpcError(Code.PERMISSION_DENIED, "no"))
    assert (type(refused), str(refused), refused.plugin) == (PluginRejected, "plugin 10-a refused: no", "10-a")
    failed = named("10-a", RpcError(2, "boom"))
    assert (type(failed), failed.code, failed.message) == (PluginError, 2, "boom")
    assert str(named("10-a", ConnectionClosed("gone"))).startswith("plugin 10-a: ")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "left"),
    [("plugin 10-a: boom", "boom"), ("plugin 10-a refused: no", "no"), ("plugin 20-b: boom", "plugin 20-b: boom")],
)
def test_a_name_that_the_plugin_gave_itself_is_not_said_twice(text: str, left: str) -> None:
    assert unnamed("10-a", RpcError(2, text)).message == left
