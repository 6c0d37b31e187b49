"""Run tests in user-mode nodes with cgroup v2, without and with systemd, and report as pytest does.

    python -m tests.nodes           the core: about five minutes
    python -m tests.nodes --all     all that can run in a node
    python -m tests.nodes --systemd tests/unit/host -k cgroups     what pytest takes

Exit codes: pytest's; 124 a node did not end in time; 125 there is no node; 77 its kernel cannot be built here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.nodes.kernel import CANNOT
from tools.nodes.machine import REPORT, ROOT, Node, NodeError
from tools.runtimes import MissingError, install
from tools.runtimes.images import image_archive
from tools.runtimes.machine import ensure_packages

#: A node is this much slower than the machine while others use its processors as well.
PATIENCE = 8
# An import is slow in a node, so only the plugins that are needed.
PLUGINS = ("--disable-plugin-autoload", "-p", "pytest_timeout", "-p", "no:cacheprovider")
PASSED_ON = ("PATH", "CI", "NRI_NO_SKIP", "NRI_CACHE", "XDG_CACHE_HOME", "HYPOTHESIS_PROFILE", "HOME")


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that run in one node, as pytest's arguments.

    Attributes:
        systemd: whether systemd is process 1.
        deadline_s: for the node and all its tests. A node has to share this machine's processors.
        releases: those of containerd that the tests run.
    """

    name: str
    tests: tuple[str, ...]
    systemd: bool = False
    deadline_s: float = 1800.0
    releases: tuple[str, ...] = ("2.4",)


CORE = (
    Part("cgroup v2", ("tests/unit/host", "tests/engine/test_controls.py", "tests/engine/test_processes.py")),
    Part("systemd", ("tests/nodes", "-k", "not cgroupfs"), systemd=True),
)
_PODS = ("tests/engine/test_pod_verbs.py", "tests/engine/test_pod_volumes.py")
_PLACEMENT = ("tests/unit/placement/test_plugin.py", "tests/engine/test_placement.py")
ALL = (
    Part("engine", ("tests/engine",), deadline_s=7200.0),
    Part("agent", tuple(f"tests/agent/test_{name}.py" for name in ("nri", "proxy", "standalone")), deadline_s=7200.0),
    Part("placement", _PLACEMENT, deadline_s=3600.0),
    Part("pods", ("tests/unit/pods", *_PODS)),
    Part("proxy", ("tests/proxy",), deadline_s=3600.0, releases=("1.7", "2.4")),
    *CORE,
    Part("systemd, driver cgroupfs", ("tests/nodes", "-k", "cgroupfs"), systemd=True),
    Part("systemd, host", ("tests/unit/host",), systemd=True),
    Part("systemd, engine", ("tests/engine/test_plugins.py", "tests/engine/test_processes.py", *_PODS), systemd=True),
    Part("systemd, placement", _PLACEMENT, systemd=True, deadline_s=3600.0),
    Part("systemd, demo", ("tests/real/test_demo.py",), systemd=True, releases=("1.7", "2.4")),
)


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.nodes", description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all parts, not only the core")
    parser.add_argument("--part", choices=[part.name for part in ALL], help="one part")
    parser.add_argument("--systemd", action="store_true", help="systemd is process 1; for tests that are named")
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds, for tests that are named")
    parser.add_argument("--junit-xml", type=Path, help="where the report goes")
    parser.add_argument("--basetemp", help="not used: a node has its own folders")
    options, tests = parser.parse_known_args(arguments)
    parts: tuple[Part, ...] = ALL if options.all else CORE
    if options.part:
        parts = tuple(part for part in ALL if part.name == options.part)
    elif tests:
        parts = (Part("tests", tuple(tests), options.systemd, options.deadline),)
    try:
        with tempfile.TemporaryDirectory(prefix="nri-r-") as folder:
            reports = [Path(folder, f"{number}.xml") for number in range(len(parts))]
            codes = [_run(part, report) for part, report in zip(parts, reports, strict=True)]
            if options.junit_xml is not None:
                _merge([report for report in reports if report.exists()], options.junit_xml)
            return max(codes)
    except MissingError as error:
        print(f"tests.nodes: error: {error}", file=sys.stderr)
        return CANNOT
    except NodeError as error:
        print(f"tests.nodes: error: {error}", file=sys.stderr)
        return 124 if "within" in str(error) else 125
    except KeyboardInterrupt:
        return 130


def _run(part: Part, report: Path) -> int:
    """Run a part in its node. What has to be fetched or built is got here, because a node has no network."""
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, "-q", "--collect-only", *part.tests],
        check=False, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if collected.returncode != 0:
        print(collected.stdout)
        return collected.returncode
    ensure_packages(print)
    image_archive(print)
    for release in part.releases:
        install(release, print)
    print(f"--- {part.name}", flush=True)
    command = [sys.executable, "-m", "pytest", *PLUGINS, "-v", "-o", f"timeout={120 * PATIENCE}"]
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return Node(part.deadline_s, systemd=part.systemd).run(
        [*command, f"--junit-xml={REPORT}", *part.tests],
        {**environment, "NRI_PATIENCE": str(PATIENCE), "PYTHONUNBUFFERED": "1"},
        report,
    )


def _merge(reports: list[Path], path: Path) -> None:
    """Write one report of the tests of all parts."""
    suites = ET.Element("testsuites")
    for report in reports:
        suites.extend(ET.parse(report).getroot())
    ET.ElementTree(suites).write(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
