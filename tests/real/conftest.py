"""Fixtures: three containerds, each with the recording plugin, or started anew with a test's own settings.

Every test here runs on each of them; tests of configuration files also run on containerd 2.3. What is
missing on the machine is said by tests/support/needs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.plugin_process import PluginProcess
from tests.real.support_matrix import RUNTIMES
from tests.support.needs import need, need_machine, need_root
from tests.support.oci_runtimes import newer_runc, wrapped_crun
from tools.runtimes import Containerd, Installed, MissingError, install
from tools.runtimes.config import DaemonSettings
from tools.runtimes.leftovers import sweep
from tools.runtimes.machine import ensure_packages

HERE = Path(__file__).parent
Start = Callable[..., Containerd]
Plug = Callable[..., PluginProcess]


@dataclass(frozen=True, slots=True)
class Runtime:
    """A running containerd with a recorder in it, shared by the tests that change neither."""

    key: str
    daemon: Containerd
    plugin: PluginProcess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test on a runtime may have to fetch or build it."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", params=RUNTIMES)
def key(request: pytest.FixtureRequest) -> str:
    """The containerd release that the test runs on."""
    return str(request.param)


@pytest.fixture(scope="session")
def installed(key: str) -> Installed:
    """That release, on this machine."""
    need_root()
    try:
        ensure_packages(print)
        sweep()
        program = install(key, print)
    except MissingError as error:
        need(False, str(error))
        raise
    # Debian's suites move on; the table is about this release.
    moved_on = f"containerd {key} in its archive but {program.version}: give that a column in support_matrix.py"
    need_machine(program.version.startswith(f"{key}."), moved_on)
    return program


@pytest.fixture(scope="session")
def runtime(key: str, installed: Installed) -> Iterator[Runtime]:
    """The shared daemon of that release, with pod networks, three OCI runtimes and the recorder."""
    daemon = Containerd(installed)
    daemon.configure(DaemonSettings(oci={"runc13": newer_runc(), "crun": wrapped_crun(daemon.run_dir / "crun-here")}))
    daemon.enable_pod_network()
    with daemon, PluginProcess(daemon.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        yield Runtime(key, daemon, plugin)


@pytest.fixture
def start(installed: Installed) -> Iterator[Start]:
    """Start a daemon of the test's own; ends with the test. Arguments are those of `DaemonSettings`."""
    with ExitStack() as stack:

        def start_one(prepare: Callable[[Containerd], None] | None = None, **settings: object) -> Containerd:
            daemon = Containerd(installed, DaemonSettings(**settings))  # type: ignore[arg-type]
            stack.callback(daemon.close)
            if prepare is not None:
                prepare(daemon)
            daemon.start()
            return daemon

        yield start_one


@pytest.fixture
def plug() -> Iterator[Plug]:
    """Start a recorder of the test's own and wait until it is synchronized; ends with the test."""
    with ExitStack() as stack:

        def plug_one(daemon: Containerd, **options: object) -> PluginProcess:
            plugin = PluginProcess(daemon.nri_socket, **options)  # type: ignore[arg-type]
            stack.enter_context(plugin)
            plugin.wait_for("Synchronize")
            return plugin

        yield plug_one
