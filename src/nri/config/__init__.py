"""Configuration from files, texts and flags, checked against an annotated class.

    class Config:
        cpus: str = "0-3"
        timeout: nri.config.Duration = 2.0

    config = nri.config.read(Config, [Source("10-pin.conf", text), Source("--config", '{"cpus": "4-7"}')])

Later sources override earlier sources, key by key. All problems of all sources are reported at once, each with its
location and a fix.
"""

from __future__ import annotations

from nri.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.duration import Duration as Duration
    from nri.config.duration import check_timeouts as check_timeouts
    from nri.config.duration import format_duration as format_duration
    from nri.config.duration import parse_duration as parse_duration
    from nri.config.layers import read as read
    from nri.config.source import Source as Source
    from nri.config.source import read_file as read_file
    from nri.config.syntax import parse_text as parse_text
    from nri.config.typed import Between as Between
    from nri.config.typed import OneOf as OneOf
    from nri.config.watch import Watch as Watch

__all__ = [
    "Between",
    "Duration",
    "OneOf",
    "Source",
    "Watch",
    "check_timeouts",
    "format_duration",
    "parse_duration",
    "parse_text",
    "read",
    "read_file",
]

if not TYPE_CHECKING:  # with __getattr__ a type checker would accept every misspelt name
    __getattr__, __dir__ = lazy(
        globals(),
        {
            "duration": "Duration check_timeouts format_duration parse_duration",
            "layers": "read",
            "source": "Source read_file",
            "syntax": "parse_text",
            "typed": "Between OneOf",
            "watch": "Watch",
        },
    )
