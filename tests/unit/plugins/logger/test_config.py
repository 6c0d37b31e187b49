"""The keys and flags of `logger`."""

from __future__ import annotations

import pytest

import nri
from nri.config import Source, read
from nri.plugins.logger.config import FLAGS, LoggerConfig


def test_every_key_but_those_of_log_and_events_has_its_flag() -> None:
    assert {row.field for row in FLAGS.values()} == set(LoggerConfig.__annotations__) - {"logFile", "events"}


def test_an_unknown_event_is_told_with_those_that_there_are() -> None:
    with pytest.raises(nri.ConfigError, match=r'x:1: events\[0\]: unknown event "pods": expected all, pod, container'):
        read(LoggerConfig, [Source("x", "events: [pods]")])
