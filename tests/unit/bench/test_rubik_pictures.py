"""Plots of rubik's services: the longest bar fills the width, and texts are escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from bench.studies.rubik_decided import PICTURES, decided
from bench.studies.rubik_pictures import OURS, PLAIN, bars, line


def test_bars_have_the_length_of_their_values_and_names_are_escaped() -> None:
    text = bars("a < b", [("one", 5.0, "5 ms", OURS), ("two", 10.0, "10 ms", PLAIN)])
    ET.fromstring(text)
    short, long = (float(width) for width in re.findall(r'<rect x="190"[^>]* width="([\d.]+)"', text))
    assert long == 2 * short
    assert "a &lt; b" in text
    assert bars("nothing", [("none", 0.0, "0", OURS)])


def test_a_line_plot_shows_its_events() -> None:
    text = line("quota", {"quota / limit": [(0.0, 1.0), (1.0, 2.0)]}, {"load begins": 0.5})
    ET.fromstring(text)
    assert "load begins" in text
    assert "quota / limit" in text


def test_the_documentations_pictures_of_decisions_are_current() -> None:
    """After an intended change run `python -m bench.studies.rubik_decided`."""
    for name, drawn in decided().items():
        assert (PICTURES / f"{name}.svg").read_text() == drawn, name
        assert "decided, not measured" in drawn


def test_pictures_of_decisions_show_the_effects_of_the_services() -> None:
    drawn = decided()
    assert all(f"eviction {number}<" in drawn["psi"] for number in (1, 2, 3)) and "eviction 4" not in drawn["psi"]
    assert ">99 %<" in drawn["ioCost"] and ">1 %<" in drawn["ioCost"]
    assert "online pods miss" in drawn["dynCache"]
    assert "it is limited" in drawn["cpi"]
