"""Fixtures: the proxy in front of two releases of containerd and of our engine, and a recorder in it.

`proxied` is shared: a test adds pods of its own and takes them away. `own` is a test's own, to be killed and started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.plugin_process import PluginProcess
from tests.support.needs import need, need_root
from tools.runtimes import Containerd, MissingError, install
from tools.runtimes.config import DaemonSettings
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.leftovers import sweep
from tools.runtimes.machine import ensure_packages
from tools.runtimes.proxy import Proxied

HERE = Path(__file__).parent
RUNTIMES = ("containerd-2.4", "containerd-1.7", "engine")
Own = Callable[..., Proxied]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test on a runtime may have to fetch or build it."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


def make(name: str, more: str = "", *, network: bool = False) -> Proxied:
    """A proxy in front of that runtime, which has its NRI switched off; not started yet.

    Only one runtime at a time can have a `network` for pods: its addresses are always the same.
    """
    need_root()
    try:
        sweep()
        if name == "engine":
            ensure_packages(print, PACKAGES)
            engine = Engine(nri=False)
            if network:
                engine.enable_pod_network()
            return Proxied(engine, more)
        ensure_packages(print)
        daemon = Containerd(install(name.partition("-")[2], print), DaemonSettings(nri={"disable": True}))
        if network:
            daemon.enable_pod_network()
        return Proxied(daemon, more)
    except MissingError as error:
        need(False, str(error))
        raise


@pytest.fixture(scope="session", params=RUNTIMES)
def runtime_name(request: pytest.FixtureRequest) -> str:
    """The runtime behind the proxy."""
    return str(request.param)


@pytest.fixture(scope="session")
def proxied(runtime_name: str) -> Iterator[Proxied]:
    """The shared proxy."""
    proxied_runtime = make(runtime_name, network=True)
    try:
        proxied_runtime.start()
        yield proxied_runtime
    finally:
        proxied_runtime.close()


@pytest.fixture(scope="session")
def plugin(proxied: Proxied) -> Iterator[PluginProcess]:
    """The recorder in the shared proxy."""
    with PluginProcess(proxied.nri_socket) as process:
        process.wait_for("Synchronize")
        yield process


@pytest.fixture
def own_proxy(runtime_name: str) -> Iterator[Own]:
    """Start a proxy and a runtime of the test's own; `more` is added to the proxy's settings."""
    with ExitStack() as stack:

        def start_one(more: str = "") -> Proxied:
            proxied_runtime = make(runtime_name, more)
            stack.callback(proxied_runtime.close)
            proxied_runtime.start()
            return proxied_runtime

        yield start_one
