"""The compiled wheel compiles each module that an event uses, except those with a reason in the table."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tools.build_hook import compiled_files, matching_files, module_lists
from tools.way_of_an_event import READ, Call, Profile

pytestmark = pytest.mark.pure

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
CONFIG = module_lists(ROOT)
#: Names that are words of the language to gcc.
WORDS_OF_C = {
    "__alignof", "__asm", "__attribute", "__auto_type", "__complex", "__const", "__imag", "__inline",
    "__int128", "__real", "__restrict", "__signed", "__thread", "__typeof", "__volatile", "_Alignas",
    "_Alignof", "_Atomic", "_Bool", "_Complex", "_Generic", "_Imaginary", "_Noreturn", "_Thread_local",
}  # fmt: skip
RESOURCES = nri.Update("c1").set_memory_limit(5).message.linux.resources


class Everything(nri.Plugin):
    """A plugin that takes every event and answers what can be answered; `profile` has what its thread calls."""

    mirror = True

    def __init__(self) -> None:
        self.profile = Profile()

    def configure(self) -> None:
        sys.setprofile(self.profile)

    def create_container(self, pod: Any, container: Any) -> Any:
        adjustment = nri.Adjustment().add_env("A", "1").remove_env("B").add_annotation("a/b", "c")
        adjustment.add_mount("/a", "/b", "bind", ["bind"]).add_device("/dev/x", "c", 1, 2).add_rlimit(
            "RLIMIT_NOFILE", 2, 1
        )
        adjustment.set_memory_limit(1 << 30).set_cpuset_cpus("0").add_unified("memory.high", "1")
        return adjustment, [nri.Update("other").set_cpu_shares(4)]

    def update_container(self, pod: Any, container: Any, resources: Any) -> Any:
        return [nri.Update(container.id).set_cpu_shares(7), nri.Update("other").set_cpu_shares(4)]

    def stop_container(self, pod: Any, container: Any) -> Any:
        return [nri.Update("other").set_cpu_shares(8)]

    def run_pod_sandbox(self, pod: Any) -> None: ...

    def update_pod_sandbox(self, pod: Any, overhead: Any, resources: Any) -> None: ...

    async def start_container(self, pod: Any, container: Any) -> None: ...

    def validate_container_adjustment(self, request: Any) -> None: ...


def _create(runtime: FakeRuntime, pod: m.PodSandbox) -> None:
    reply = runtime.adaptation.create_container(pod, make_container(pod=pod))
    assert reply.adjust.env
    assert reply.updates
    reply.commit()


def _update(runtime: FakeRuntime, pod: m.PodSandbox) -> None:
    reply = runtime.adaptation.update_container(pod, runtime.containers["c1"], RESOURCES)
    assert reply.changed
    assert reply.updates
    reply.commit()


def _stop(runtime: FakeRuntime, pod: m.PodSandbox) -> None:
    assert runtime.adaptation.stop_container(pod, runtime.containers["c1"]).updates


#: One event of each kind, as a runtime asks for it.
EVENTS: dict[str, Callable[[FakeRuntime, m.PodSandbox], object]] = {
    "CreateContainer": _create,
    "UpdateContainer": _update,
    "StopContainer": _stop,
    "RunPodSandbox": lambda runtime, pod: runtime.adaptation.run_pod_sandbox(pod),
    "UpdatePodSandbox": lambda runtime, pod: runtime.adaptation.update_pod_sandbox(pod),
    "StartContainer": lambda runtime, pod: runtime.adaptation.start_container(pod, runtime.containers["c1"]),
    "RemoveContainer": lambda runtime, pod: runtime.adaptation.remove_container(pod, runtime.containers["c1"]),
}


def neither(calls: list[Call], exceptions: dict[str, str]) -> list[str]:
    """The modules of the package that were called, and are neither compiled nor excepted."""
    paths = {*compiled_files(SOURCE, CONFIG["modules"], exceptions)}
    paths.update(path for pattern in exceptions for path in matching_files(SOURCE, pattern))
    called = {call.file for call in calls}
    assert called
    local = "nri/testing/"  # the stage that the event is played on
    return sorted(path for path in called - paths if not path.endswith("/__init__.py") and not path.startswith(local))


def profiled(event: str) -> tuple[list[Call], list[Call]]:
    """The calls of an event in the thread that asks and in the plugin's; there with Synchronize, which comes first."""
    plugin, profile = Everything(), Profile()
    with FakeRuntime() as runtime:
        pod = make_pod(name="web")
        for name in ("other", "c1"):
            runtime.create_container(pod, make_container(pod=pod, id=name))
        runtime.add(plugin)
        for _ in range(2):  # when the second one is answered, the plugin has done all that belongs to the first
            with profile.of_this_thread():
                EVENTS[event](runtime, pod)
        remote = list(plugin.profile.calls)
    reads = (at for at, call in enumerate(remote) if call.function == READ)
    return profile.calls, remote[next(reads) :]  # from the first read after Configure


@pytest.mark.parametrize("event", EVENTS)
def test_every_module_that_an_event_uses_is_compiled_or_has_a_reason(event: str) -> None:
    for call in profiled(event):
        missing = ", ".join(neither(call, CONFIG["exceptions"]))
        assert not missing, (
            f"{missing}: on the way of {event}; compile it or add the reason to tools/compiled_modules.toml"
        )


def test_a_module_without_either_is_reported() -> None:
    for calls, module in zip(profiled("StartContainer"), ("adaptation/events.py", "stub/base.py"), strict=True):
        fewer = {path: reason for path, reason in CONFIG["exceptions"].items() if path != f"nri/{module}"}
        assert neither(calls, fewer) == [f"nri/{module}"]


COMPILED = compiled_files(SOURCE, CONFIG["modules"], CONFIG["exceptions"])


def test_types_of_fields_exist_in_compiled_modules() -> None:
    for path in COMPILED:
        module = import_module(path.removesuffix(".py").replace("/", "."))
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and value.__module__ == module.__name__
                and (hasattr(value, "_fields") or is_dataclass(value))
            ):
                hints = get_type_hints(value)  # NameError: a type that is imported for type checkers only
                assert hints, f"{path}: {value.__name__} has no fields"


def test_no_attribute_has_the_name_of_a_c_keyword() -> None:
    wrong = [
        f"{path}: {word}"
        for path in COMPILED
        for word in re.findall(r"\.(\w+)", (SOURCE / path).read_text())
        if f"_{word}" in WORDS_OF_C
    ]
    assert not wrong, "mypyc puts an underscore before the name"


def test_a_pattern_matches_files_without_init_and_exceptions() -> None:
    files = compiled_files(SOURCE, ["nri/mux/*.py", "nri/wire.py"], {"nri/mux/tr*.py": "a test"})
    assert files == ["nri/mux/demux.py", "nri/mux/frames.py", "nri/wire.py"]


@pytest.mark.parametrize(
    ("modules", "exceptions", "message"),
    [
        (["nri/muks/*.py"], {}, "no file matches 'nri/muks/*.py'"),
        (["nri/mux/*.py"], {"nri/mux/gone.py": "a test"}, "no file matches 'nri/mux/gone.py'"),
        (["nri/mux/*.py"], {"nri/mux/trunk.py": " "}, "the exception 'nri/mux/trunk.py' has no reason"),
    ],
)
def test_a_row_without_a_file_fails_the_build(modules: list[str], exceptions: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compiled_files(SOURCE, modules, exceptions)
