"""The compiled wheel, unpacked below build/compiled for tests and benchmarks; built again after changes.

    python tools/compiled.py                          builds it, prints the folder; exit code 77 if it cannot
    PYTHONPATH=build/compiled/3.11 python -m nri ...  runs it instead of src/nri

Each Python has its own folder.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
FOLDER = ROOT / "build" / "compiled" / VERSION
WHEEL = ROOT / "build" / "compiled-wheel" / VERSION
_MARK = "nri-built-from"
BUILD_FILES = [ROOT / name for name in ("pyproject.toml", "tools/build_hook.py", "tools/compiled_modules.toml")]


def missing() -> str:
    """What is missing for compiling; "" if nothing is missing."""
    if not shutil.which(os.environ.get("CC", "gcc")):
        return "a C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers (on Debian: apt-get install python3-dev)"
    return ""


def _digest() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in (*BUILD_FILES, *sorted((ROOT / "src/nri").rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def wheel() -> Path:
    """The compiled wheel, built if needed. CalledProcessError if the build fails; the reason is on stderr."""
    digest, mark = _digest(), FOLDER / _MARK
    if not mark.exists() or mark.read_text() != digest or not any(WHEEL.glob("*.whl")):
        shutil.rmtree(FOLDER, ignore_errors=True)  # an old one must not be taken for the present one
        argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(WHEEL), str(ROOT)]
        shutil.rmtree(WHEEL, ignore_errors=True)
        subprocess.run(argv, check=True, stdout=sys.stderr, env={**os.environ, "NRI_COMPILE": "1", "PYTHONPATH": ""})
        with zipfile.ZipFile(next(WHEEL.glob("*.whl"))) as archive:
            archive.extractall(FOLDER)
        compileall.compile_dir(FOLDER, quiet=1)  # as pip does; otherwise every start would compile the source
        mark.write_text(digest)
    return next(WHEEL.glob("*.whl"))


def folder() -> Path:
    """The folder to put on PYTHONPATH. Raises as `wheel` does."""
    wheel()
    return FOLDER


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    if missing():
        shutil.rmtree(FOLDER, ignore_errors=True)
        print(f"compiled: error: needs {missing()}", file=sys.stderr)
        sys.exit(77)
    try:
        print(folder())
    except subprocess.CalledProcessError as error:
        sys.exit(f"compiled: error: the wheel cannot be built (see above); the build ended with {error.returncode}")
