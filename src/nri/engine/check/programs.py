"""The programs that the engine calls: where each one is, its version, and how to get it.

Next: :mod:`nri.engine.check.networks`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nri.cri.client import INSTALL
from nri.engine.check.rows import Check
from nri.engine.config import EngineConfig
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError

__all__ = ["grpcio", "missing", "programs", "version_of"]

_TIMEOUT_S = 10.0
_VERSION = re.compile(r"\b(\d+\.\d+[\w.+~-]*)")


def programs(config: EngineConfig, root: Path = Path("/")) -> Iterator[Check]:
    """The rows of OCI runtimes, conmon, skopeo, umoci and Python's grpcio."""
    yield grpcio()
    there = {name: shutil.which(runtime.path) for name, runtime in config.runtimes.items()}
    for name, runtime in config.runtimes.items():
        needed = name == config.default_runtime
        others = [other for other, path in there.items() if path and other != name]
        choice = f', or set default_runtime = "{others[0]}"' if needed and others else ""
        row = program(f"OCI runtime {name}", runtime.path, needed=needed, more=choice)
        yield _hybrid(row, name, root) if row.state == "ok" else row
    for what, name in _tools(config):
        yield program(what, name)


def missing(config: EngineConfig) -> Iterator[Check]:
    """The rows of needed programs that are not there, without running those that are."""
    runtime = config.runtimes[config.default_runtime]
    for what, name in ((f"OCI runtime {config.default_runtime}", runtime.path), *_tools(config)):
        if shutil.which(name) is None:
            yield absent(what, name)


def _tools(config: EngineConfig) -> tuple[tuple[str, str], ...]:
    return (
        ("conmon", config.conmon),
        ("skopeo, for images", config.images.skopeo),
        ("umoci, for images", config.images.umoci),
    )


def program(what: str, name: str, *, needed: bool = True, more: str = "") -> Check:
    """The row of one program."""
    path = shutil.which(name)
    if path is None:
        return absent(what, name, needed=needed, more=more)
    found = version_of(path)
    if not found:
        return Check(what, "missing", f"{path} does not say its version", f"try: {path} --version")
    return Check(what, "ok", f"{found}, {path}")


def absent(what: str, name: str, *, needed: bool = True, more: str = "") -> Check:
    """The row of a program that is not there, with the package to install."""
    step = f"apt-get install {Path(name).name}{more}, or name its path in engine.toml"
    if not needed:
        return Check(what, "limited", f"no program {name}: pods with this handler are refused", step)
    return Check(what, "missing", f"no program {name}", step)


def version_of(path: str) -> str:
    """The version that a program prints; "" if it cannot be run or prints none."""
    try:
        output = run([path, "--version"], timeout_s=_TIMEOUT_S, check=False)
    except (EngineError, OSError):
        return ""
    found = _VERSION.search(output.stdout.decode(errors="replace"))
    return found[1] if found and output.code == 0 else ""


def grpcio() -> Check:
    """The row of the Python package that the CRI needs."""
    try:
        return Check("grpcio, for the CRI", "ok", version("grpcio"))
    except PackageNotFoundError:
        return Check("grpcio, for the CRI", "missing", "not installed", INSTALL)


def _hybrid(row: Check, name: str, root: Path) -> Check:
    """Crun refuses machines that split the controllers between both versions of cgroups."""
    try:
        controllers = (root / "sys/fs/cgroup/unified/cgroup.controllers").read_text().split()
    except OSError:
        return row
    if "crun" not in name or not controllers:
        return row
    found = f"{row.found}; it refuses cgroup v1 with {', '.join(controllers)} on v2"
    return Check(row.what, "limited", found, "boot with systemd.unified_cgroup_hierarchy=1, or use runc")
