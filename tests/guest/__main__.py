"""Run tests in a guest with cgroup v2 alone and two NUMA nodes, and report as pytest does.

    python -m tests.guest            the tests of this folder, on the newest containerd, and some of the agent: minutes
    python -m tests.guest --rest     these on the older containerds, and those of tests/real, engine and agent that fit
    python -m tests.guest tests/real/test_oci_spec.py -k memory     what pytest takes

Rules: what has to be fetched or built is got here, because the guest has no network. Exit codes: pytest's; 124 the
guest was not done in time; 125 there is none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.guest import Guest, GuestError
from tools.guest.machine import REPORT, ROOT
from tools.runtimes import RELEASES, MissingError, install
from tools.runtimes.images import image_archive
from tools.runtimes.machine import ensure_packages

_NRI, _PROXY = "tests/agent/test_nri.py::test_", "tests/agent/test_proxy.py::test_"
SHORT = (
    "tests/guest",
    f"{_NRI}what_a_process_finds_at_its_first_instruction[engine]",
    f"{_NRI}a_changed_ratio_scales_what_was_asked_for_also_after_a_restart_of_the_agent[engine]",
    f"{_NRI}an_agent_that_is_killed_in_mid_creation_costs_the_values_until_it_is_back[engine]",
    f"{_PROXY}what_a_process_finds_at_its_first_instruction[engine]",
    f"{_PROXY}a_changed_rule_reaches_what_runs_also_after_a_restart_of_the_agent[engine]",
    f"{_PROXY}an_agent_that_is_killed_in_mid_creation_leaves_no_container_without_policy[engine-Ignore]",
    *("-k", "not (1.7 or 2.1)"),
)
REST = (
    "tests/guest/test_controls.py",
    *(f"tests/real/test_{name}.py" for name in ("oci_spec", "example_runtime", "adjustments", "updates", "lifecycle")),
    "tests/engine",
    *(f"tests/agent/test_{name}.py" for name in ("nri", "proxy", "containerd", "standalone")),
    *("-k", "not (test_controls and 2.4)"),
)
#: Seconds: for the short part several times what it takes on two busy processors.
DEADLINES = {SHORT: 900.0, REST: 9000.0}
#: A guest on two processors that others use as well is so much slower than the machine.
PATIENCE = 12
# An import takes twenty times as long as usual in there, so only the plugins that are needed.
PLUGINS = ("--disable-plugin-autoload", "-p", "pytest_timeout", "-p", "no:cacheprovider")
PASSED_ON = ("CI", "NRI_NO_SKIP", "NRI_CACHE", "XDG_CACHE_HOME", "HYPOTHESIS_PROFILE")


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.guest", description=__doc__.splitlines()[0])
    parser.add_argument("--rest", action="store_true", help="what is meant for the guest and takes long")
    parser.add_argument("--deadline", type=float, help="seconds, for all of it")
    parser.add_argument("--junit-xml", type=Path, help="where the report goes")
    parser.add_argument("--basetemp", help="not used: the guest has a folder of its own")
    actual, tests = parser.parse_known_args(arguments)
    expected = tuple(tests) or (REST if actual.rest else SHORT)
    options = [*PLUGINS, "-v", "-o", f"timeout={120 * PATIENCE}", f"--junit-xml={REPORT}"]
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    # A mistake shows at once, and Python finds all that it compiles on the way compiled in the guest.
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, "-q", "--collect-only", *expected],
        check=False, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if collected.returncode != 0:
        print(collected.stdout)
        return collected.returncode
    try:
        prepare(list(RELEASES) if expected != SHORT else [list(RELEASES)[-1]])
        return Guest(actual.deadline or DEADLINES.get(expected, 3600.0)).run(
            [sys.executable, "-m", "pytest", *options, *expected],
            {**environment, "NRI_PATIENCE": str(PATIENCE), "PYTHONUNBUFFERED": "1"},
            actual.junit_xml,
        )
    except (MissingError, GuestError) as error:
        print(f"tests.guest: error: {error}", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        return 130


def prepare(keys: list[str]) -> None:
    """Get what tests in the guest would fetch or build."""
    ensure_packages(print)
    image_archive(print)
    for key in keys:
        install(key, print)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
