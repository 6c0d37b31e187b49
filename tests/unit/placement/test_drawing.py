"""The picture of a node: every CPU is a square in the colour of its containers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from nri.api import cpuset
from nri.placement.containers import Pod
from nri.placement.drawing import draw
from nri.placement.policy import document
from tests.support.placement import balloons, container, guest, topology_aware

SVG = "{http://www.w3.org/2000/svg}"


def squares(picture: str) -> dict[str, tuple[str, str]]:
    """Of each CPU the fill, and the containers that its hint names."""
    actual = {}
    for rect in ET.fromstring(picture).iter(f"{SVG}rect"):
        hint = rect.findtext(f"{SVG}title")
        if hint is not None:
            cpu, _, names = hint.removeprefix("CPU ").partition(": ")
            assert cpu not in actual, "each CPU is drawn once"
            actual[cpu] = (rect.get("style", ""), names)
    return actual


@pytest.mark.parametrize("policy", [topology_aware(), balloons({"name": "own"})], ids=lambda policy: policy.name)
def test_cpus_of_the_same_containers_share_a_colour(policy) -> None:
    for name, cpu_m in (("a", 2000), ("b", 3000), ("c", 700)):
        policy.create(container(name, cpu_m))
    drawn = squares(draw(document(policy)))
    assert sorted(map(int, drawn)) == list(range(16))
    colours = {}
    for fill, names in drawn.values():
        colours.setdefault(names, set()).add(fill)
    assert colours.pop("free") == {""}
    assert all(len(fills) == 1 and "" not in fills for fills in colours.values())
    assert len(set.union(*colours.values())) == len(colours)


def test_boxes_lie_inside_the_picture_and_do_not_overlap() -> None:
    picture = ET.fromstring(draw(document(topology_aware(guest(packages=4, nodes=2, cores=9)))))
    width, height = int(picture.get("width", 0)), int(picture.get("height", 0))
    boxes: dict[str, list[tuple[int, ...]]] = {}
    for rect in picture.iter(f"{SVG}rect"):
        if rect.get("class") != "paper":
            place = tuple(int(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
            boxes.setdefault(rect.get("class", ""), []).append(place)
    for kind, places in boxes.items():
        for number, (x, y, w, h) in enumerate(places):
            assert x + w <= width and y + h <= height
            for x2, y2, w2, h2 in places[:number]:
                assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y, f"two boxes {kind} overlap"


def test_names_are_escaped_and_cut_and_a_long_legend_ends() -> None:
    policy = topology_aware(guest(cores=32))
    policy.create(container('<b>&"\x1b' + "x" * 500, 1000))
    for number in range(60):
        policy.create(container(f"c{number}", 1000))
    picture = draw(document(policy))
    assert "\x1b" not in picture
    words = [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]
    assert any(": default/<b>&" in text for text in words)
    assert words[-1] == "and 21 more"


def test_unpinned_containers_are_in_the_last_row() -> None:
    policy = topology_aware()
    policy.create(container("pinned", 1000))
    assert "not pinned" not in draw(document(policy))
    for number in range(6):
        pod = Pod(f"alone-{number}", f"alone-{number}", annotations={"cpu.preserve.resource-policy.nri.io": "true"})
        policy.create(replace(container(f"alone-{number}", 100), pod=pod))
    words = [element.text or "" for element in ET.fromstring(draw(document(policy))).iter(f"{SVG}text")]
    assert words[-1].startswith("not pinned to CPUs: default/alone-0/alone-0, default/alone-1/alone-1 and 4 more")


def test_rows_of_the_legend_fit_and_count_omitted_entries() -> None:
    policy = topology_aware(guest(cores=32))
    for number in range(12):
        policy.create(container(f"a-long-name-{number}", 100, qos="Burstable"))
    picture = ET.fromstring(draw(document(policy)))
    rows = [element for element in picture.iter(f"{SVG}text") if "ink" in element.get("class", "")]
    for row in rows:
        text = row.text or ""
        assert 8 * len(text) < int(picture.get("width", 0)), text
        names = text.partition(": ")[2].partition(" and ")
        assert names[0].count("a-long-name") == 2 * len(names[0].split(", ")), "a name is cut"
    assert any(" and " in (row.text or "") for row in rows)


def test_a_long_list_of_cpus_is_cut_between_numbers() -> None:
    topology = guest(cores=24)
    odd = replace(
        topology,
        cpus={n: cpu for n, cpu in topology.cpus.items() if n % 2 == 0 or n < 16},
        offline=frozenset(n for n in topology.cpus if n % 2 and n >= 16),
    )
    policy = topology_aware(odd)
    policy.create(container("shared", 60_000, qos="Burstable"))
    picture = ET.fromstring(draw(document(policy)))
    (row,) = [element.text or "" for element in picture.iter(f"{SVG}text") if "shared" in (element.text or "")]
    listed, _, remainder = row.removeprefix("CPUs ").partition(",... (")
    assert cpuset.parse(listed) < odd.online, row
    assert re.fullmatch(r"\d+ in all\); memory nodes [0-9,-]+: default/shared/shared", remainder), row


def test_numbers_of_four_digits_fit_their_squares() -> None:
    picture = ET.fromstring(draw(document(topology_aware(guest(cores=256)))))
    kinds = {element.text: element.get("class", "") for element in picture.iter(f"{SVG}text")}
    assert ("cpu" in kinds["999"], "long" in kinds["1000"]) == (True, True)


def test_both_themes_have_every_colour() -> None:
    picture = draw(document(topology_aware()))
    light, dark = picture.partition("@media (prefers-color-scheme:dark)")[::2]
    used = {part.partition(")")[0] for part in picture.split("var(--")[1:]}
    assert used
    assert all(f"--{name}:" in light and f"--{name}:" in dark for name in used)
