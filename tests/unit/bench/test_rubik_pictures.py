"""Plots of rubik's services: the longest bar is as long as there is room, and what is told is escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from bench.rubik_pictures import OURS, PLAIN, bars, line


def test_bars_are_as_long_as_their_values_and_names_are_escaped() -> None:
    text = bars("a < b", [("one", 5.0, "5 ms", OURS), ("two", 10.0, "10 ms", PLAIN)])
    ET.fromstring(text)
    short, long = (float(each) for each in re.findall(r'<rect x="190"[^>]* width="([\d.]+)"', text))
    assert long == 2 * short
    assert "a &lt; b" in text
    assert bars("nothing", [("none", 0.0, "0", OURS)])


def test_a_line_has_its_moments() -> None:
    text = line("quota", {"quota / limit": [(0.0, 1.0), (1.0, 2.0)]}, {"load begins": 0.5})
    ET.fromstring(text)
    assert "load begins" in text
    assert "quota / limit" in text
