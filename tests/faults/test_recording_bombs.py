"""Small crafted recordings: memory and time of every command stay in proportion to the file.

The bounds are those of docs/reference/trace-format.md. Each verb runs as a process, which reports its greatest memory
itself: the figure that a parent gets includes the parent's own memory before the program was started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support import recording_bombs
from tests.support.recording_bombs import BOMBS
from tests.unit.cli.conftest import environment

#: Bytes of a reader's memory: in any case, and for each byte of the recording; seconds of processor time likewise.
MEMORY, MEMORY_PER_BYTE = 72 << 20, 4
SECONDS, SECONDS_PER_MIB = 5.0, 90.0

PLUGIN = """
import nri


class P(nri.Plugin):
    \"\"\"Sets nothing.\"\"\"

    name = "p"
    sets = ("env.*",)

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        return None

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        pass
"""

#: A command of the words after the first one, which names the file for its memory (KiB), seconds and exit code.
COMMAND = """
import os, resource, sys
out = sys.argv.pop(1)
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
code = 1
try:
    PROGRAM
except SystemExit as error:
    code = error.code or 0
finally:
    sys.stdout.flush()
    memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    used = resource.getrusage(resource.RUSAGE_SELF)
    open(out, "w").write(f"{memory} {used.ru_utime + used.ru_stime} {code}")
    os._exit(0)
"""
NRI = COMMAND.replace("PROGRAM", "from nri.cli.entry import start; code = start()")
#: What the page asks for: all of the recording, then a list, single events, containers and their chains.
PAGE = COMMAND.replace(
    "PROGRAM",
    "import json; from nri.inspector.sources import Recording; source = Recording(sys.argv[1]); source.read(); "
    "listed = source.events(); json.dumps(source.overview()); json.dumps(listed); "
    "[json.dumps(source.event(row['key'])) for row in listed['rows'][:3]]; source.events('', 'nothing has this'); "
    "[json.dumps(source.container(row['id'])) for row in source.containers()['containers'][:50]]; code = 0",
)

VERBS = {
    "show": ["trace", "show", "FILE"],
    "show all": ["trace", "show", "--last", "100000", "FILE"],
    "show json": ["trace", "show", "-o", "json", "FILE"],
    "stat": ["trace", "stat", "FILE"],
    "otlp": ["trace", "export", "FILE", "otlp"],
    "chrome": ["trace", "export", "FILE", "chrome"],
    "cut": ["trace", "cut", "FILE", "OUT"],
    "predict": ["predict", "FILE", "--plugin", "20=PLUGIN"],
    "why": ["why", "c1", "--trace", "FILE"],
    "replay": ["replay", "FILE", "--plugin", "10=PLUGIN"],
    "replay without a plugin": ["replay", "FILE"],
    "inspect": ["inspect", "FILE", "--export", "OUT"],
    "page": ["FILE"],
}


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "p.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write a bomb once, because the tests only read it."""

    @cache
    def written(bomb: str) -> Path:
        path = tmp_path_factory.mktemp("bomb") / "a.nritrace"
        recording_bombs.write(bomb, str(path))
        return path

    return written


def unmeasured() -> dict[str, str]:
    """The environment of a program whose lines coverage.py does not count: that takes its time and memory."""
    return {name: value for name, value in environment().items() if not name.startswith("COVERAGE_")}


def check(verb: str, recording: Path, plugin: Path, folder: Path) -> None:
    """Run a verb, and hold it to the bounds."""
    words = {"FILE": str(recording), "OUT": str(folder / "out")}
    arguments = [words.get(word, word.replace("PLUGIN", str(plugin))) for word in VERBS[verb]]
    program = [sys.executable, "-c", PAGE if verb == "page" else NRI, str(folder / "used"), *arguments]
    process = subprocess.run(
        program, env=unmeasured(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    assert "Traceback" not in process.stderr, process.stderr[-2000:]
    memory_kib, seconds, code = (folder / "used").read_text().split()
    paths = recording.iterdir() if recording.is_dir() else [recording]
    size = sum(path.stat().st_size for path in paths)
    figures = f"{int(memory_kib) >> 10} MiB, {float(seconds):.1f} s of a recording of {size >> 10} KiB"
    assert int(memory_kib) << 10 <= MEMORY + MEMORY_PER_BYTE * size, figures
    assert float(seconds) <= SECONDS + SECONDS_PER_MIB * size / (1 << 20), figures
    assert int(code) in (0, 1, 2, 4, 5), process.stderr


#: Each bomb meets two verbs, all verbs over all bombs; the whole table is slow.
SOME = [(bomb, list(VERBS)[(2 * place + more) % len(VERBS)]) for place, bomb in enumerate(BOMBS) for more in range(2)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("bomb", "verb"), SOME)
def test_a_small_recording_costs_a_command_only_in_proportion_to_its_size(
    bomb: str, verb: str, recording: Callable[[str], Path], plugin: Path, tmp_path: Path
) -> None:
    check(verb, recording(bomb), plugin, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_recording_costs_every_command_only_in_proportion_to_its_size(
    bomb: str, recording: Callable[[str], Path], plugin: Path, tmp_path: Path
) -> None:
    for verb in VERBS:
        (tmp_path / "out").unlink(missing_ok=True)
        check(verb, recording(bomb), plugin, tmp_path)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("bomb", ["long notes", "empty containers in requests", "recordings"])
def test_reading_several_recordings_costs_only_in_proportion_to_their_size(
    bomb: str, plugin: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in range(8):
        recording_bombs.write(bomb, str(folder / f"nri-{number}.nritrace"))
    for verb in ("show json", "page"):
        check(verb, folder, plugin, tmp_path)


@pytest.mark.timeout(240)
def test_very_many_files_cost_only_in_proportion_to_their_size(plugin: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    recording_bombs.write("great numbers in headers", str(folder / "nri-0.nritrace"))
    for number in range(1, 5000):
        os.link(folder / "nri-0.nritrace", folder / f"nri-{number}.nritrace") if number < 3 else (
            folder / f"nri-{number}.nritrace"
        ).write_bytes(b"\x89NRITRC\n")
    for verb in ("show", "stat", "why"):
        check(verb, folder, plugin, tmp_path)


def test_skipped_records_are_reported(tmp_path: Path) -> None:
    recording_bombs.write("empty containers in requests", str(tmp_path / "a.nritrace"))
    words = [sys.executable, "-m", "nri", "trace", "show", "-o", "json", str(tmp_path / "a.nritrace")]
    process = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "a record is left out: too long for a recording of this size" in process.stderr
