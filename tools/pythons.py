"""The Pythons that this project supports: where this machine has them, and an environment for tests with each.

    python tools/pythons.py           lists them
    python tools/pythons.py 3.12      makes build/pythons/3.12 from requirements/dev.txt if needed; prints its python

The classifiers in pyproject.toml list the supported versions. An interpreter counts if it runs and can make
environments. A shim of pyenv without a selected version stands for the versions that pyenv has installed. The running
Python needs no other environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "pythons"
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
#: The version of the running Python, as `3.11`.
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
_MARK = ".nri-made-from"
_PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """The versions in the classifiers, oldest first: `3.11`, `3.12`, ..."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matches = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", row) for row in project["classifiers"])
    return [match[1] for match in matches if match is not None]


def other_versions() -> list[str]:
    """The supported versions except the running one."""
    return [version for version in supported() if version != OWN]


def find(version: str) -> Path | None:
    """A working interpreter of this version, or None."""
    return next((path for path in _candidates(version) if _runs(path, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    for folder in filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)):
        path = Path(folder, name)
        if not path.is_file():
            continue
        yield path
        if path.parent.name == "shims":  # of pyenv
            yield from sorted(path.parent.parent.glob(f"versions/{version}.*/bin/{name}"), reverse=True)


def _runs(path: Path, version: str) -> bool:
    try:
        process = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return process.stdout.strip() == version


def place(version: str) -> Path:
    """The place of the environment's interpreter."""
    return Path(sys.executable) if version == OWN else FOLDER / version / "bin" / "python"


def environment(version: str) -> Path:
    """The interpreter of an environment with the locked requirements and this project, editable; made if needed.

    Raises:
        LookupError: this machine has no Python of this version.
        CalledProcessError: making the environment failed; the reason is on stderr.
    """
    python = place(version)
    if version == OWN:
        return python
    base = find(version)
    if base is None:
        raise LookupError(f"no Python {version} on this machine")
    digest = hashlib.sha256(str(base).encode())
    for path in (REQUIREMENTS, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    mark = FOLDER / version / _MARK
    if not mark.exists() or mark.read_text() != digest.hexdigest():
        shutil.rmtree(FOLDER / version, ignore_errors=True)  # an old one must not be taken for the present one
        try:
            _make(base, FOLDER / version)
        except BaseException:
            shutil.rmtree(FOLDER / version, ignore_errors=True)
            raise
        mark.write_text(digest.hexdigest())
    return python


def _make(base: Path, folder: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    pip = (uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python")
    _run(uv, "venv", "--quiet", "--python", base, folder)
    _run(*pip, "--require-hashes", "--requirement", REQUIREMENTS)
    _run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def main(arguments: list[str]) -> int:
    """List the Pythons, or make the environment of one."""
    if not arguments:
        for version in supported():
            print(f"{version}  {sys.executable if version == OWN else find(version) or 'not on this machine'}")
        return 0
    if len(arguments) > 1 or arguments[0] not in supported():
        print(f"usage: tools/pythons.py [{'|'.join(supported())}]", file=sys.stderr)
        return 2
    try:
        print(environment(arguments[0]))
    except LookupError as error:
        print(f"pythons: error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"pythons: error: {' '.join(map(str, error.cmd))} ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
