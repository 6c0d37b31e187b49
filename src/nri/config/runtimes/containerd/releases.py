"""containerd's releases by the rules for their configuration, and how a release is found in a version's text."""

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
        name: the releases, for people.
        newest_version: the newest configuration version that it reads.
        toml: the dialect of TOML.
        has_validator: NRI's default validator exists.
        translates: when settings of older versions become those of today: never, for all files merged, for each file.
        refuses_newer_drop_in: a drop-in must not have a higher version than the main file.
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
        """Tell whether these are the rules of containerd 1.7."""
        return self.newest_version == 2


#: Ascending. The TOML library depends on the build: Debian's 2.1 has a newer one than containerd's own.
SERIES: tuple[Rules, ...] = (
    Rules("1.7.0", "1.7", 2, "0.5", has_validator=False, translates="never"),
    Rules("2.0.0", "2.0 and 2.1", 3, "1.1", has_validator=False, translates="merged"),
    Rules("2.2.0", "2.2", 3, "1.1", translates="merged"),
    Rules("2.3.0", "2.3", 4, "1.0", refuses_newer_drop_in=True),
    Rules("2.4.0", "2.4", 4, "1.1"),
)

NEWEST_RELEASE = SERIES[-1].first


def rules_of(release: str) -> Rules | None:
    """Find the rules of a release ("1.7.24", "v2.1.5-k3s1"). A newer release has those of the newest; None for ""."""
    if not release:
        return None
    series = [rules for rules in SERIES if version_at_least(release, rules.first)]
    return series[-1] if series else SERIES[0]


def parse_release(output: str) -> str:
    """Find the release in the output of ``containerd --version``, with a distribution's suffix; "" if there is none."""
    match = re.search(r"(?:^|\s)v?(\d+\.\d+\.\d+\S*)", output)
    return match[1] if match else ""
