"""Fetch a package of another Debian suite and unpack it, without changing this system.

apt runs with its own state, cache and sources below a scratch directory; it checks the archive's signature.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.runtimes.machine import MissingError, apt_problem, architecture, find_tool
from tools.runtimes.mirror import Mirror, find_mirror

DEFAULT_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A package's version, the packages that it depends on, and the versions of the Go libraries built into it."""

    version: str
    depends: tuple[str, ...]
    built_using: dict[str, str]


def unpack(package: str, suite: str, target: Path, scratch: Path) -> Unpacked:
    """Unpack the package of that suite into `target`; `MissingError` has the reason.

    A second package with the same `scratch` needs no second look at what the suite has.
    """
    options = _updated_apt(suite, scratch)
    _run(["apt-get", *options, "-qq", "download", package], scratch, f"{package} of {suite}")
    deb = next(scratch.glob(f"{package}_*.deb"))
    _run(["dpkg-deb", "-x", str(deb), str(target)], scratch, f"{package} of {suite}")
    version, depends = (_run(["dpkg-deb", "-f", str(deb), name], scratch, package) for name in ("Version", "Depends"))
    # A name, perhaps with the version that it must have and with alternatives behind it.
    names = tuple(part.split()[0] for part in depends.split(",") if part.strip())
    libraries = _run(["dpkg-deb", "-f", str(deb), "Built-Using", "Static-Built-Using"], scratch, package)
    built_using = dict(re.findall(r"([\w.+-]+) \(= ([^)]+)\)", libraries))
    return Unpacked(version.strip() or "?", names, built_using)


def newest(pattern: str, suite: str, scratch: Path) -> str:
    """The last of the packages of a suite whose names match a pattern of apt, by version. Raises MissingError."""
    options = _updated_apt(suite, scratch)
    lines = _run(["apt-cache", *options, "search", "--names-only", f"^{pattern}"], scratch, f"{pattern} of {suite}")
    names = [line.split()[0] for line in lines.splitlines() if line]
    if not names:
        raise MissingError(f"a package {pattern}", f"Debian {suite} has none; check apt's sources")
    return max(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def _updated_apt(suite: str, scratch: Path) -> list[str]:
    """The options for an apt that knows the packages of a suite; its lists are fetched once for each `scratch`."""
    if not find_tool("apt-get") or not find_tool("dpkg-deb"):
        raise MissingError("apt-get and dpkg-deb", "this needs a Debian system (or one like it)")
    options = _private_apt(find_mirror(), suite, scratch)
    if not any((scratch / "state/lists").glob("*_Packages*")):
        update = ["apt-get", *options, "-qq", "-o", "APT::Update::Error-Mode=any", "update"]
        _run(update, scratch, "a reachable Debian mirror")
    return options


def _private_apt(mirror: Mirror, suite: str, scratch: Path) -> list[str]:
    """Make apt's directories below `scratch` and return the options that point to them."""
    for name in ("state/lists/partial", "cache/archives/partial", "etc/parts", "etc/preferences"):
        (scratch / name).mkdir(parents=True, exist_ok=True)
    (scratch / "status").touch()
    keyring = mirror.keyring or (DEFAULT_KEYRING if Path(DEFAULT_KEYRING).exists() else "")
    signed = f" signed-by={keyring}" if keyring else ""
    line = f"deb [arch={architecture()}{signed}] {mirror.uri} {suite} main\n"
    (scratch / "etc/sources.list").write_text(line)
    settings = {
        "Dir::State": scratch / "state",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::sourcelist": scratch / "etc/sources.list",
        "Dir::Etc::sourceparts": scratch / "etc/parts",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": scratch / "etc/preferences",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        # The scratch directory need not be readable by apt's own user.
        "APT::Sandbox::User": "root",
        # A mirror snapshot may be older than the archive's validity period.
        "Acquire::Check-Valid-Until": "false",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def _run(command: list[str], folder: Path, what: str) -> str:
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise MissingError(what, f"{apt_problem(process.stderr)}; check the network and apt's sources")
    return process.stdout
