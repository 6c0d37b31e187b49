"""What becomes of the bundled plugins' wishes: by runtime and OCI runtime, for the tests and docs/reference/plugins.md.

Rules: a cell says what happens, not what should; tests measure each of them: tests/real/test_bundled_plugins.py, and
tests/engine/test_bundled_plugins.py for our engine.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.real.bundled_cases import BACK, CASES, EFFECTIVE, GONE, IGNORED, PLACED
from tests.real.support_matrix import ADJUSTMENTS

#: OCI runtime as tests call it -> as people do.
OCI = {"runc": "runc 1.1", "runc13": "runc 1.3", "crun": "crun 1.8"}
#: crun 1.8 starts no container of these containerds: it does not know the version of their OCI specs.
OF_CONTAINERD = ("runc", "runc13")
RUNTIMES = {"1.7": OF_CONTAINERD, "2.1": OF_CONTAINERD, "2.4": OF_CONTAINERD, "nri": tuple(OCI)}

Cell = str | dict[str, str]
_OLD: dict[str, Cell] = {"1.7": IGNORED, "2.1": IGNORED}
_NEVER: dict[str, Cell] = dict.fromkeys(RUNTIMES, IGNORED)
#: What runc says of files of cgroup v2 on a machine with cgroup v1.
_V1: dict[str, Cell] = {**dict.fromkeys(RUNTIMES, "refused: cannot use unified on cgroup v1"), "nri": IGNORED}
_V1_NOTE = "the tests' machines lack these files of cgroup v2: runc refuses the container, our engine omits them"
_NEWER: Cell = {"runc": IGNORED, "runc13": EFFECTIVE, "crun": IGNORED}
_EXCEPTIONS: dict[str, tuple[dict[str, Cell], str]] = {
    "cdi": ({"1.7": IGNORED}, ""),
    "sysctl": (_OLD, ""),
    "io-priority": ({**_OLD, "2.4": _NEWER, "nri": _NEWER}, ""),
    **dict.fromkeys(("scheduler", "calm", "calm-balloon"), ({**_OLD, "2.4": _NEWER, "nri": _NEWER}, "")),
    "cpu": (
        {},
        "measured on machines with one memory node; in a guest with two, memory nodes are pinned, too",
    ),
    "net-device": (_NEVER, ADJUSTMENTS["net-device"].note),
    "memory-policy": (_NEVER, ADJUSTMENTS["memory-policy"].note),
    "closid": (_NEVER, "the tests' machines have no resctrl"),
    "schemata": (_NEVER, "the tests' machines have no resctrl"),
    "monitoring": (_NEVER, "the tests' machines have no resctrl"),
    "memory-high": (_V1, _V1_NOTE),
    "swap-max": (_V1, _V1_NOTE),
    "sgx": (_V1, _V1_NOTE),
    "mpolset": (_OLD, ""),
    "memtierd": (
        {"nri": {"runc": EFFECTIVE, "runc13": EFFECTIVE, "crun": "refused: no cgroup below"}},
        "with both cgroup versions mounted, crun uses only version 1; memtierd needs version 2",
    ),
    "counted": (_NEVER, "the tests' machines have no resctrl"),
    "required": (_OLD, "before 2.4 the plugin ends at its start, because the runtime lacks its event"),
    BACK: (
        {"1.7": GONE},
        "1.7 reports a pod's stop after its network was removed: the kernel has moved cards back, and deleted veths",
    ),
}
"""Case -> runtime -> what it is there if it is not effective, for all OCI runtimes or by OCI runtime; and a note."""


def cell(name: str, runtime: str, handler: str) -> str:
    """What a case is there."""
    entry = _EXCEPTIONS.get(name, ({}, ""))[0].get(runtime, EFFECTIVE)
    return entry if isinstance(entry, str) else entry[handler]


def differences(
    runtime: str, handler: str, results: dict[str, str], names: Iterable[str] = (*CASES, BACK)
) -> dict[str, str]:
    """The cases that are not as the table says: what was expected, and what was found."""
    wrong = {}
    for name in names:
        expected, observed = cell(name, runtime, handler), results[name]
        if observed != expected and not (
            expected.startswith("refused: ") and expected.removeprefix("refused: ") in observed
        ):
            wrong[name] = f"expected {expected!r}, got {observed!r}"
    return wrong


def rows() -> list[tuple[str, ...]]:
    """The table for people: plugin, what it was asked for, a cell for each runtime, a note."""
    results = []
    for name, case in {**CASES, **PLACED}.items():
        results.append(_row(name, case.plugin, case.text))
        if name == "net-moved":
            results.append(_row(BACK, case.plugin, "the device, back on the host"))
    return results


def _row(name: str, plugin: str, text: str) -> tuple[str, ...]:
    return (f"`{plugin}`", text, *(_words(name, runtime) for runtime in RUNTIMES), _EXCEPTIONS.get(name, ({}, ""))[1])


def _words(name: str, runtime: str) -> str:
    """A cell: one word if it is the same for all OCI runtimes, else each word with those that it is for."""
    results: dict[str, list[str]] = {}
    for handler in RUNTIMES[runtime]:
        results.setdefault(cell(name, runtime, handler).partition(":")[0], []).append(OCI[handler])
    if len(results) == 1:
        return next(iter(results))
    return "; ".join(f"{word} ({', '.join(handlers)})" for word, handlers in results.items())
