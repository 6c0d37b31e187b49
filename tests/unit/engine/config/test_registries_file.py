"""registries.conf of podman and CRI-O, with its drop-in files and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.engine.config.registries_file import Mirror, RegistriesFile, RegistryRule, read_registries
from nri.errors import ConfigError

WHOLE = """\
unqualified-search-registries = ["quay.io", "docker.io/"]
short-name-mode = "enforcing"
credential-helpers = ["containers-auth.json"]

[[registry]]
prefix = "registry.example/team"
location = "internal.example:5000/mirror/team"
insecure = true

[[registry.mirror]]
location = "near.example"
insecure = true
pull-from-mirror = "digest-only"

[[registry]]
prefix = "*.example.net"
blocked = true

[[registry]]
location = "quay.io"
mirror-by-digest-only = true

[[registry.mirror]]
location = "far.example/quay"

[aliases]
"app" = "registry.example/team/app"
"old" = "registry.example/old"
"""

DIGEST_ONLY = '[[registry]]\nlocation = "a.io"\nmirror-by-digest-only = true\n'


def read(folder: Path, *texts: str) -> RegistriesFile:
    """Read a file and drop-in files with these texts."""
    (folder / "r.conf.d").mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        (folder / f"r.conf.d/{number}.conf" if number else folder / "r.conf").write_text(text)
    return read_registries(str(folder / "r.conf"))


def test_registries_mirrors_and_short_names_are_read(tmp_path: Path) -> None:
    file = read(tmp_path, WHOLE)
    near_mirror = Mirror("near.example", True, "digest-only")
    far_mirror = Mirror("far.example/quay", False, "digest-only")
    assert [*file.rules.values()] == [
        RegistryRule(
            "registry.example/team", "internal.example:5000/mirror/team", insecure=True, mirrors=(near_mirror,)
        ),
        RegistryRule("*.example.net", blocked=True),
        RegistryRule("quay.io", "quay.io", mirrors=(far_mirror,)),
    ]
    assert (file.search, file.mode) == (("quay.io", "docker.io"), "enforcing")
    assert file.aliases == {"app": "registry.example/team/app", "old": "registry.example/old"}


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert read_registries(str(_file(tmp_path, ""))) == RegistriesFile()


def _file(folder: Path, text: str) -> Path:
    file = folder / "alone.conf"
    file.write_text(text)
    return file


def test_later_drop_in_files_replace_keys_of_earlier_ones(tmp_path: Path) -> None:
    first = 'short-name-mode = "disabled"\n[[registry]]\nlocation = "quay.io"\n[aliases]\n"old" = ""\n"a" = "q.io/a"\n'
    file = read(tmp_path, WHOLE, first, 'unqualified-search-registries = []\n[aliases]\n"a" = "q.io/b"\n')
    (tmp_path / "r.conf.d/readme.txt").write_text("not TOML")
    assert file.rules["quay.io"] == RegistryRule("quay.io", "quay.io")
    assert (file.search, file.mode) == ((), "disabled")
    assert file.aliases == {"app": "registry.example/team/app", "a": "q.io/b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[registries.search]\nregistries = ["a.io"]', r"r.conf: registries: the format of version 1"),
        ("registry = 7", "registry: must be a list"),
        ("registry = [7]", r"registry\[0\]: must be a table"),
        ('[[registry]]\nprefix = "a.io"', r"registry\[0\]: location is required"),
        (
            '[[registry]]\nlocation = "https://a.io"',
            r"r.conf:2: registry\[0\].location: .* must not begin with a scheme",
        ),
        ('[[registry]]\nlocation = "a io"', '"a io" is not a registry'),
        ('[[registry]]\nlocation = "a.io"\ninsecure = "no"', r"registry\[0\].insecure: must be true or false"),
        ('[[registry]]\nlocation = "a.io"\n[[registry]]\nprefix = "a.io"\nlocation = "b.io"', "has a table already"),
        ('[[registry]]\nlocation = "a.io"\n[[registry.mirror]]\ninsecure = true', r'mirror\[0\].location: "" is not'),
        (
            '[[registry]]\nlocation = "a.io"\n[[registry.mirror]]\nlocation = "b"\npull-from-mirror = "x"',
            "must be one of all, digest-only, tag-only",
        ),
        (
            DIGEST_ONLY + '[[registry.mirror]]\nlocation = "b"\npull-from-mirror = "all"',
            "contradicts mirror-by-digest-only",
        ),
        ('short-name-mode = "x"', "must be one of enforcing, permissive, disabled"),
        ("unqualified-search-registries = [1]", r"unqualified-search-registries\[0\]: must be a string"),
        ('[aliases]\n"a:1" = "b.io/a"', "the name must have neither a registry nor a tag"),
        ('[aliases]\n"a" = "b.io/a:1"', "without a tag or digest"),
        ('[aliases]\n"a" = "b"', "the target must be a registry and a repository"),
        ('[aliases]\n"A b" = "b.io/a"', "is not"),
        ("[[", "r.conf"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="more than 10000"):
        read(tmp_path, "[aliases]\n" + "\n".join(f'"a{number}" = "b.io/a"' for number in range(10_001)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/none: cannot read it"):
        read_registries(str(tmp_path / "none"))
