"""The picture of `nri placement show` in a real Chromium: no text is cut on small and large machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.placement.drawing import draw
from nri.placement.policy import document
from tests.support.browser import chromium
from tests.support.needs import need_tool
from tests.support.placement import container, guest, topology_aware

#: Texts that reach beyond the picture, or the box that they begin in; numbers of CPUs that reach beyond their squares.
CUT = """(() => {
  const svg = document.querySelector('svg'), whole = svg.viewBox.baseVal;
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBBox(), square = text.classList.contains('cpu') || text.classList.contains('long');
    const around = [...svg.querySelectorAll('rect')].map(rect => rect.getBBox()).filter(rect =>
      rect.x <= box.x && rect.x + rect.width > box.x && rect.y <= box.y + 3 && rect.y + rect.height > box.y + 3);
    const right = Math.min(...around.map(rect => rect.x + rect.width));
    return box.x + box.width > Math.min(right, whole.width) || box.y + box.height > whole.height
      || (square && box.width > 26);
  }).map(text => text.textContent);
})()"""


@pytest.mark.parametrize("cores", [1, 14, 512], ids=["8 CPUs", "112 CPUs", "4096 CPUs"])
def test_no_text_is_cut_in_light_and_dark_mode(tmp_path: Path, cores: int) -> None:
    policy = topology_aware(guest(2, 2, cores, 2, mem_kib_per_node=1536 << 20))
    for number in range(24):
        qos = ("Guaranteed", "Burstable", "BestEffort")[number % 3]
        policy.create(container(f"a-container-with-a-long-name-{number}", 1000 * (number in (0, 3, 6)), qos=qos))
    page = tmp_path / "node.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{draw(document(policy))}")
    with chromium(need_tool("chromium")) as browser:
        papers = set()
        for dark in (False, True):
            browser.dark(dark)
            browser.open(page.as_uri())
            assert browser.ask(CUT) == []
            papers.add(browser.ask("getComputedStyle(document.querySelector('.paper')).fill"))
        assert len(papers) == 2, "light and dark are the same"
