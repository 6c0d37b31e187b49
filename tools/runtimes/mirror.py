"""The Debian mirror that this machine is configured for.

It reads apt's source files in both formats (deb822 `.sources` and one-line `.list`). Disabled entries, security
archives and archives of others do not count.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.runtimes.machine import MissingError

# A suite by one of these names is Debian's own main archive (and so not a third party's).
RELEASE_NAMES = ("buster", "bullseye", "bookworm", "trixie", "forky", "duke")
SUITES = frozenset((*RELEASE_NAMES, "oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"))


@dataclass(frozen=True, slots=True)
class Mirror:
    """A Debian archive: `uri`, and the path of the keyring that signs it ("" = apt's default)."""

    uri: str
    keyring: str


def find_mirror(apt_dir: Path = Path("/etc/apt")) -> Mirror:
    """The first Debian main archive among apt's sources; `MissingError` when there is none."""
    parts = apt_dir / "sources.list.d"
    for path in (apt_dir / "sources.list", *sorted(parts.glob("*.sources")), *sorted(parts.glob("*.list"))):
        if path.is_file():
            text = path.read_text(errors="replace")
            for mirror in _deb822(text) if path.suffix == ".sources" else _one_line(text):
                return mirror
    raise MissingError("a Debian mirror", f"no Debian archive is configured below {apt_dir}")


def _usable(uri: str, suites: list[str], components: list[str]) -> bool:
    return "main" in components and "security" not in uri and not SUITES.isdisjoint(suites)


def _one_line(text: str) -> Iterator[Mirror]:
    """Entries such as `deb [signed-by=/k.gpg arch=amd64] http://host/debian trixie main`."""
    for line in text.splitlines():
        options, fields = _split_options(shlex.split(line, comments=True))
        if len(fields) >= 4 and fields[0] == "deb" and _usable(fields[1], [fields[2]], fields[3:]):
            yield Mirror(fields[1], options.get("signed-by", ""))


def _split_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Take the bracketed options out of a one-line entry: (options, the other words)."""
    options: dict[str, str] = {}
    fields: list[str] = []
    inside = False
    for word in words:
        inside = inside or word.startswith("[")
        if not inside:
            fields.append(word)
            continue
        key, _, value = word.strip("[]").partition("=")
        options[key.lower()] = value
        inside = not word.endswith("]")
    return options, fields


def _deb822(text: str) -> Iterator[Mirror]:
    """Stanzas of `Key: value` lines, continued by indented lines, parted by empty lines."""
    for stanza in _stanzas(text):
        if stanza.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" not in stanza.get("types", "").split():
            continue
        suites, components = stanza.get("suites", "").split(), stanza.get("components", "").split()
        signed_by = stanza.get("signed-by", "")
        # Signed-By may also hold a whole key; then apt's default keyring has to do.
        keyring = signed_by if signed_by.startswith("/") else ""
        for uri in stanza.get("uris", "").split():
            if _usable(uri, suites, components):
                yield Mirror(uri, keyring)


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    stanza: dict[str, str] = {}
    key = ""
    for line in (*text.splitlines(), ""):
        if not line.strip():
            if stanza:
                yield stanza
            stanza, key = {}, ""
        elif line.startswith("#"):
            continue
        elif line[0] in " \t":
            stanza[key] = f"{stanza.get(key, '')} {line.strip()}"
        else:
            name, _, value = line.partition(":")
            key = name.strip().lower()
            stanza[key] = value.strip()
