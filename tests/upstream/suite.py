"""Build the reference's own black-box tests over our adaptation, and run them.

The test files are in the released module, which the Go client has in its cache. `build` copies them into a temporary
folder, has them import `bridge/` where they import the reference's package, and compiles them as if they stood beside
the bridge (an overlay of the Go tool: they are never in this tree). `Program.run` runs them over one mode of our
adaptation and says how each leaf, a test without tests of its own, came out. Next: `table`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.peers.build import BuildError, off_the_clock
from tests.support.needs import need_tool

MODULE = "github.com/containerd/nri"
PACKAGE = f"{MODULE}/pkg/adaptation"
BRIDGE = Path(__file__).resolve().parent / "bridge"
BRIDGE_PACKAGE = "nri.test/upstream"
ROOT = BRIDGE.parent.parent.parent
GO_TEST = ("go", "test", "-c", "-vet=off", "-trimpath", "-tags", "nri_no_wasm")
#: How long all leaves together may take, in seconds. They take ten.
LIMIT_S = 100

_RUN = re.compile(r"^=== RUN +(\S+)$")
_RESULT = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one leaf came out, and what it said."""

    passed: bool
    output: str


def _go(*arguments: str) -> str:
    process = subprocess.run(
        arguments, cwd=BRIDGE, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=1800
    )
    if process.returncode:
        raise BuildError(f"{' '.join(arguments)} ended with {process.returncode}:\n{process.stderr[-4000:]}")
    return process.stdout


def released_tests() -> dict[str, str]:
    """The test files of the reference's package by name, as the released module has them; needs Go."""
    need_tool("go")
    with off_the_clock():
        module = json.loads(_go("go", "mod", "download", "-json", MODULE))
    folder = Path(module["Dir"], PACKAGE.removeprefix(MODULE + "/"))
    return {path.name: path.read_text() for path in sorted(folder.glob("*_test.go"))}


def build(files: Mapping[str, str], target: Path) -> "Program":
    """Compile these test files over the bridge into a program. BuildError if they do not fit."""
    with tempfile.TemporaryDirectory(prefix="nri-upstream-") as folder, off_the_clock():
        replaced: dict[str, str] = {}
        for name, text in files.items():
            copy = Path(folder, name)
            copy.write_text(text.replace(f'"{PACKAGE}"', f'"{BRIDGE_PACKAGE}"'))
            replaced[str(BRIDGE / name)] = str(copy)
        overlay = Path(folder, "overlay.json")
        overlay.write_text(json.dumps({"Replace": replaced}))
        _go("nice", "-n", "10", *GO_TEST, "-overlay", str(overlay), "-o", str(target), ".")
    return Program(target)


class Program:
    """The compiled tests."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *arguments: str, leaf: str = "") -> dict[str, Outcome]:
        """Run all leaves, or one, over an adaptation that is made with these arguments of `runner`."""
        only = "/".join(f"^{re.escape(part)}$" for part in leaf.split("/")) if leaf else "."
        command = [sys.executable, "-m", "tests.upstream.runner", *arguments]
        with tempfile.TemporaryDirectory(prefix="nri-up-") as folder:
            process = subprocess.run(
                [self.path, "-test.v", f"-test.timeout={LIMIT_S}s", f"-test.run={only}"],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": folder, "NRI_TEST_ADAPTATION": json.dumps(command)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=LIMIT_S + 10,
            )
        return _leaves(process.stdout)


def _leaves(text: str) -> dict[str, Outcome]:
    """What ``-test.v`` printed, by leaf. Tests run one after the other, so what follows a name is its own."""
    output: dict[str, list[str]] = {}
    results: dict[str, bool] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if begun := _RUN.match(line):
            lines = output.setdefault(begun[1], [])
        elif result := _RESULT.match(line):
            results[result[2]] = result[1] == "PASS"
        else:
            lines.append(line)
    inner = {name.rpartition("/")[0] for name in results}
    return {
        name: Outcome(passed, "\n".join(output.get(name, ()))) for name, passed in results.items() if name not in inner
    }
