"""A node under systemd: where these tests can run, its engine and its agent, as their units run them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.needs import need_machine
from tools.runtimes.images import BUSYBOX, image_archive

NRI = (sys.executable, "-m", "nri")
UNITS = Path("/etc/systemd/system")
ENGINE = """
[cgroups]
driver = "systemd"
parent = "kubepods.slice"
[nri]
plugin_request_timeout = "30s"
"""


def run(*words: str) -> str:
    """Run a program of the node; returns its output."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A node is slow."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", autouse=True)
def systemd_node() -> None:
    """Run only on cgroup v2 with systemd as process 1."""
    has_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    has_systemd = Path("/run/systemd/system").exists() and Path("/proc/1/comm").read_text() == "systemd\n"
    need_machine(has_v2 and has_systemd, "cgroup v2 under systemd; `make test-nodes` brings its own")


@pytest.fixture(scope="session")
def engine(systemd_node: None) -> Iterator[str]:
    """The engine as the unit that `nri engine unit` prints, with systemd's cgroups and one image; its name."""
    unit = "nri-engine.service"
    Path("/etc/nri").mkdir(exist_ok=True)
    Path("/etc/nri/engine.toml").write_text(ENGINE)
    (UNITS / unit).write_text(run(*NRI, "engine", "unit"))
    run("systemctl", "daemon-reload")
    run("systemctl", "start", unit)
    run(*NRI, "engine", "load", f"oci-archive:{image_archive(print)}:{BUSYBOX}", BUSYBOX)
    yield unit
    run("systemctl", "stop", unit)


@pytest.fixture
def agent(engine: str, tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Start the agent as a unit: with these modes, and this file of rules."""
    unit = "nri-test-agent.service"

    def start(modes: str, rules: str) -> None:
        (tmp_path / "rules.yaml").write_text(rules)
        words = (*NRI, "agent", "run", "--mode", modes, "--rules", str(tmp_path / "rules.yaml"))
        words = (*words, "--set", "pods.cri=/run/nri-engine/engine.sock")
        run("systemd-run", f"--unit={unit}", "--property=Type=notify", f"--working-directory={Path.cwd()}", *words)

    yield start
    run("systemctl", "stop", unit)
