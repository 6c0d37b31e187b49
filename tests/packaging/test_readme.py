"""The first commands of the README, with Debian's Python, in the shell of a new user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT
from tests.support.commands import run
from tests.support.needs import need, need_root

pytestmark = pytest.mark.timeout(600)  # a download on a slow line

#: What sudo searches on Debian, and nothing of the user's own.
SUDO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def readme_line(beginning: str) -> str:
    """The one indented line of the README that begins so."""
    (line,) = re.findall(rf"(?m)^    ({re.escape(beginning)}.*)$", (ROOT / "README.md").read_text())
    return str(line)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder in which the install line of the README has been run, in a clean checkout."""
    need(list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")), "a Python of Debian's that pip may not touch")
    need(subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], check=False).returncode == 0, "python3-venv")
    home = tmp_path_factory.mktemp("home")
    checkout = home / "nri"
    checkout.mkdir()
    names = ("src", "tools", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
    for path in run(["git", "-C", ROOT, "ls-files", *names]).split():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, checkout / path)
    return home


@pytest.fixture(scope="module")
def installed(home: Path) -> str:
    """The output of that user's shell after the install line."""
    return sh(f"{readme_line('python3 -m venv ~')}\ncommand -v nri\nnri version", home)


def sh(script: str, home: Path, path: str = "/usr/local/bin:/usr/bin:/bin") -> str:
    keep = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "http", "HTTP", "SSL_"))}
    return run(["/bin/sh", "-ec", script], cwd=home / "nri", env={**keep, "HOME": str(home), "PATH": path})


def test_the_install_line_works_with_the_distributions_python(installed: str, home: Path) -> None:
    assert f"{home}/.nri/bin/nri\n" in installed
    assert re.search(r"(?m)^nri +\d", installed), installed


def test_sudo_finds_the_command_after_the_link_line(installed: str, home: Path) -> None:
    """A separate mount namespace protects this machine's /usr/local/bin."""
    need_root()
    link = readme_line("sudo ln").removeprefix("sudo ")
    (home / "root").mkdir(exist_ok=True)
    script = f"mount -t tmpfs none /usr/local/bin\n{link}\nHOME=/root\nnri doctor --root {home}/root || test $? = 1"
    output = sh(f"unshare -m /bin/sh -ec '{script}'", home, SUDO_PATH)
    assert "no configuration of a runtime with NRI found" in output
