"""Findings of what is remarked on in a runtime's configuration. Next: `nri.config.runtimes.words` has the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.cli.doctor.findings import Finding
from nri.config.runtimes.words import words_of

if TYPE_CHECKING:
    from nri.config.runtimes.reading import Reading, Remark


def findings_of(reading: Reading) -> list[Finding]:
    """Put all remarks of a reading into words."""
    return [finding(reading.runtime, remark) for remark in reading.remarks]


def finding(runtime: str, remark: Remark) -> Finding:
    """Put one remark on a runtime's configuration into words."""
    words = words_of(runtime, remark)
    return Finding(words.level, words.what, remark.where, words.next)
