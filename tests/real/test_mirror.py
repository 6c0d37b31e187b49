"""Finding the machine's Debian mirror in apt's two source formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.runtimes.machine import MissingError
from tools.runtimes.mirror import Mirror, find_mirror

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB822 = f"""\
Types: deb
# a comment
URIs: http://security.test/debian-security
Suites: bookworm-security
Components: main
Signed-By: {KEYRING}

Types: deb deb-src
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: {KEYRING}
"""


ONE_LINE = f"""\
# x
deb-src http://s.test/debian trixie main
deb [arch=amd64 signed-by={KEYRING}] http://m.test/d sid main
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sources.list.d/debian.sources", DEB822, Mirror("http://mirror.test/debian", KEYRING)),
        ("sources.list", "deb http://m.test/debian trixie main\n", Mirror("http://m.test/debian", "")),
        (
            "sources.list.d/a.list",
            ONE_LINE,
            Mirror("http://m.test/d", KEYRING),
        ),
        (
            "sources.list.d/key.sources",
            "Types: deb\nURIs: http://m.test/debian\nSuites: stable\nComponents: main\nSigned-By:\n -----BEGIN\n .\n",
            Mirror("http://m.test/debian", ""),
        ),
    ],
)
def test_the_main_archive_is_found(tmp_path: Path, name: str, text: str, expected: Mirror) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert find_mirror(tmp_path) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb https://packages.test/apt cloud-sdk-bookworm main\n",
        "deb http://security.test/debian-security bookworm-security main\n",
        "# deb http://m.test/debian trixie main\n",
    ],
)
def test_other_archives_are_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.list").write_text(text)
    with pytest.raises(MissingError, match="a Debian mirror"):
        find_mirror(tmp_path)


def test_a_disabled_entry_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/d.sources").write_text("Enabled: no\n" + DEB822.split("\n\n", 1)[1])
    with pytest.raises(MissingError):
        find_mirror(tmp_path)
