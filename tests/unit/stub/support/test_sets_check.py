"""A plugin may set only its declared fields: otherwise an error in tests, a warning on a node."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest

import nri
from nri.api import messages as m
from nri.errors import NriError
from nri.stub.support.sets_check import SetsCheck
from nri.testing import FakeRuntime, make_container, make_pod

CREATED = nri.Adjustment().add_env("LEVEL", "1").set_cpu_shares(2).message


class Declares(nri.Plugin):
    """Sets more or less than it declares."""

    sets: ClassVar[Sequence[str]] = ("env.LEVEL", "linux.resources.cpu")

    def __init__(self, adjustment: nri.Adjustment | None = None, update: nri.Update | None = None) -> None:
        self.adjustment, self.update = adjustment, update

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> list[nri.Update]:
        return [] if self.update is None else [self.update]

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        return self.adjustment

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> nri.Eviction:
        return nri.Eviction(container, "updated")

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update | nri.Eviction]:
        return [nri.Eviction(container, "stopped")]


@pytest.fixture
def runtime() -> Iterator[FakeRuntime]:
    with FakeRuntime() as runtime:
        yield runtime


@pytest.mark.parametrize(
    "adjustment",
    [None, nri.Adjustment().add_env("LEVEL", "1").set_cpu_shares(2), nri.Adjustment().remove_env("LEVEL")],
)
def test_declared_fields_are_accepted(runtime: FakeRuntime, adjustment: nri.Adjustment | None) -> None:
    reply = runtime.add(Declares(adjustment)).create_container(make_pod(), make_container())
    got, message = reply.adjust.message, (adjustment or nri.Adjustment()).message
    assert list(got.env) == list(message.env)
    assert got.linux.resources.cpu.shares == message.linux.resources.cpu.shares


@pytest.mark.parametrize(
    ("adjustment", "words"),
    [
        (nri.Adjustment().add_env("A", "1"), 'Env A, which is not declared in Declares.sets: add "env.A"'),
        (nri.Adjustment().set_memory_limit(5), 'sets MemLimit, .*: add "linux.resources.memory.limit"'),
        (nri.Adjustment().set_args(["x"]), 'sets Args, .*: add "args"'),
    ],
)  # fmt: skip
def test_in_tests_an_undeclared_field_is_an_error(runtime: FakeRuntime, adjustment: nri.Adjustment, words: str) -> None:
    runtime.add(Declares(adjustment))
    with pytest.raises(NriError, match=words):
        runtime.create_container(make_pod(), make_container())


def test_updates_and_evictions_are_checked(runtime: FakeRuntime) -> None:
    container = make_container()
    with pytest.raises(NriError, match="sets PidsLimit"):
        runtime.add(Declares(update=nri.Update(container).set_pids_limit(3)))
    plugin = Declares(update=nri.Update(container).set_cpu_shares(3))
    runtime.add(plugin, "20")
    with pytest.raises(NriError, match=r'sets an eviction, .*: add "evict"'):
        plugin.runtime.evict(container)
    with pytest.raises(NriError, match="sets an eviction"):
        runtime.update_container(make_pod(), container, m.LinuxResources())
    with pytest.raises(NriError, match="sets PidsLimit"):
        plugin.runtime.update(nri.Update(container).set_pids_limit(3))


def test_an_empty_declaration_is_checked(runtime: FakeRuntime) -> None:
    class Nothing(Declares):
        sets = ()

    runtime.add(Nothing(nri.Adjustment().add_env("A", "1")))
    with pytest.raises(NriError, match="sets Env A"):
        runtime.create_container(make_pod(), make_container())


def test_on_a_node_each_undeclared_field_logs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Declares()
    plugin.sets = ("args",)  # type: ignore[misc]
    check = SetsCheck(plugin, strict=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            check.check_part(CREATED)
    assert [record.getMessage() for record in caplog.records] == [
        'Declares sets Env LEVEL, which is not declared in Declares.sets: add "env.LEVEL"',
        'Declares sets CPUShares, which is not declared in Declares.sets: add "linux.resources.cpu.shares"',
    ]


@pytest.mark.parametrize(
    ("sets", "error", "words"),
    [
        (("env.*", "linux.resource.cpu"), ValueError, 'Wrong.sets: "linux.resource.cpu" .* mean "linux.resources.cpu"'),
        (("env", 5), TypeError, "Wrong.sets has 5"),
        ("env", TypeError, "Wrong.sets must be a tuple of names"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_an_error_at_class_creation(sets: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        type("Wrong", (nri.Plugin,), {"sets": sets})
