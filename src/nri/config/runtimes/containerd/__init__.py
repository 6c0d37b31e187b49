"""containerd's configuration, evaluated by the rules of each series of its releases.

    reading = containerd.read("/", "2.1.9")
    verdict = judge(DiskTree("/"), rules_of("2.1.9"))

`judgement` has the verdict on all files together, `reading` the remarks as text.
"""

from __future__ import annotations

from nri.config.runtimes.containerd.judgement import NAME, PATH, judge
from nri.config.runtimes.containerd.key_types import NRI as PLUGIN
from nri.config.runtimes.containerd.reading import OLD_TABLE, TABLE, read, read_tree
from nri.config.runtimes.containerd.releases import NEWEST_RELEASE, parse_release, rules_of
from nri.config.runtimes.containerd.runtime import RUNTIME

__all__ = [
    "NAME",
    "NEWEST_RELEASE",
    "OLD_TABLE",
    "PATH",
    "PLUGIN",
    "RUNTIME",
    "TABLE",
    "judge",
    "parse_release",
    "read",
    "read_tree",
    "rules_of",
]
