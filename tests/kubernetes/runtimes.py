"""The runtimes that the tests put a kubelet on: a row each.

Rules: a runtime is anything with a run directory, a CRI socket and an NRI socket that can be started, killed and
started again with its pods running on. Containerd is here to show that a failure is the engine's and not the harness's.
Next: `kubelet`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tools.runtimes import Containerd, install
from tools.runtimes.config import DaemonSettings
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.machine import Say, ensure_packages
from tools.runtimes.proxy import Proxied


class NodeRuntime(Protocol):
    """What the tests need of a runtime; `tools.runtimes.Containerd` has it."""

    run_dir: Path
    cri_socket: Path
    nri_socket: Path
    log: Path

    def start(self) -> None:
        """Serve; what ran before a stop is still there."""

    def stop(self) -> int | None:
        """End in order; pods run on."""

    def kill(self) -> None:
        """End as by a crash; pods run on."""

    def close(self) -> None:
        """End everything and remove every trace."""


def containerd(say: Say) -> NodeRuntime:
    """The newest containerd, with a bridge for pods."""
    ensure_packages(say)
    daemon = Containerd(install("2.4", say))
    daemon.enable_pod_network()
    return daemon


def engine(say: Say) -> NodeRuntime:
    """The engine of this project, with a bridge for pods."""
    ensure_packages(say, PACKAGES)
    engine_ = Engine(say)
    engine_.enable_pod_network()
    return engine_


def proxied(say: Say) -> NodeRuntime:
    """The CRI proxy of this project in front of the newest containerd, whose own NRI is switched off."""
    ensure_packages(say)
    daemon = Containerd(install("2.4", say), DaemonSettings(nri={"disable": True}))
    daemon.enable_pod_network()
    return Proxied(daemon)


RUNTIMES: dict[str, Callable[[Say], NodeRuntime]] = {"containerd": containerd, "engine": engine}
#: For `test_proxy` alone, which runs what of the other tests is about the runtime's calls.
PROXIED: dict[str, Callable[[Say], NodeRuntime]] = {"proxy": proxied}
