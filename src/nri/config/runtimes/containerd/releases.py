"""containerd's series of releases with the rules for their configuration, and the parser of version outputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from nri.versions import version_at_least

if TYPE_CHECKING:
    from nri.config.runtimes.containerd.toml_text import Dialect


class Rules(NamedTuple):
    """The rules of a series of releases.

    Attributes:
        first: the first release of the series.
        name: the releases, for messages.
        newest_version: the newest configuration version that it reads.
        toml: the dialect of TOML.
        has_validator: whether NRI's default validator exists.
        translates: whether settings of older versions are migrated: never, for all files merged, or for each file.
        refuses_newer_drop_in: whether a drop-in must not have a higher version than the main file.
    """

    first: str
    name: str
    newest_version: int
    toml: Dialect
    has_validator: bool = True
    translates: Literal["never", "merged", "each"] = "each"
    refuses_newer_drop_in: bool = False

    @property
    def is_1(self) -> bool:
        """Whether these are the rules of containerd 1.7."""
        return self.newest_version == 2


#: All series, ascending. The TOML library depends on the build: Debian's 2.1 has a newer library than containerd's own.
SERIES: tuple[Rules, ...] = (
    Rules("1.7.0", "1.7", 2, "0.5", has_validator=False, translates="never"),
    Rules("2.0.0", "2.0", 3, "1.1", has_validator=False, translates="merged"),
    Rules("2.1.0", "2.1", 3, "1.1", has_validator=False, translates="merged"),
    Rules("2.2.0", "2.2", 3, "1.1", translates="merged"),
    Rules("2.3.0", "2.3.0 to 2.3.4", 4, "1.0", refuses_newer_drop_in=True),
    Rules("2.3.5", "2.3.5 and later 2.3", 4, "1.0"),
    Rules("2.4.0", "2.4", 4, "1.1"),
)

NEWEST_RELEASE = SERIES[-1].first


def rules_of(release: str) -> Rules | None:
    """Find the rules of a release ("1.7.24", "v2.1.5-k3s1"). Unknown newer releases have the newest rules.

    Returns None if the release is "".
    """
    if not release:
        return None
    series = [rules for rules in SERIES if version_at_least(release, rules.first)]
    return series[-1] if series else SERIES[0]


def parse_release(output: str) -> str:
    """Find the release in the output of ``containerd --version``, with a distribution's suffix.

    Returns "" if the output has no release.
    """
    match = re.search(r"(?:^|\s)v?(\d+\.\d+\.\d+\S*)", output)
    return match[1] if match else ""
