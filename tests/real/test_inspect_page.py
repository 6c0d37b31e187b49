"""The page of `nri inspect` in a real Chromium: all views by keyboard, and hostile text stays text."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.inspector.page import snapshot
from nri.inspector.sources import Recording, Running
from nri.inspector.web import Web
from tests.support.axe import axe, findings
from tests.support.browser import Page, chromium
from tests.support.inspected import REFUSED_ID, Inspected
from tests.support.needs import need_tool
from tests.support.waiting import wait_for

VIEWS = [
    "#/",
    "#/events",
    "#/containers",
    "#/container?id=c1",
    f"#/container?id={REFUSED_ID}",
    "#/search?q=app",
    "#/drift",
    "#/agent?pod=u1",
    "#/placement",
]


@pytest.fixture(scope="module")
def node() -> Iterator[Inspected]:
    """A node on which something has happened; all texts of it are attacks."""
    with tempfile.TemporaryDirectory(prefix="nri-page-", dir="/tmp") as folder, Inspected(Path(folder)) as instance:
        instance.work()
        yield instance


@pytest.fixture(scope="module")
def live(node: Inspected) -> Iterator[Running]:
    with node.source() as source:
        node.work()
        wait_for(lambda: len(source.events()["rows"]) >= 3, "what has happened is seen")
        yield source


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    with tempfile.TemporaryDirectory(prefix="nri-page-", dir="/tmp") as folder:
        with Inspected(Path(folder)) as instance:
            instance.work()
        source = Recording(f"{folder}/traces")
        source.read()
        yield source


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium(need_tool("chromium")) as page:
        yield page


@pytest.fixture(params=["recording", "live", "snapshot"])
def page(request: pytest.FixtureRequest, browser: Page, tmp_path: Path) -> Iterator[Page]:
    """The overview: of a recording, of a runtime that runs, and of that as a file."""
    browser.told.clear()
    source = request.getfixturevalue("recording" if request.param == "recording" else "live")
    if request.param == "snapshot":
        file = tmp_path / "node.html"
        file.write_bytes(snapshot(source))
        browser.open(file.as_uri())
        browser.wait("document.querySelectorAll('.tile').length > 3")
        yield browser
    else:
        with Web(source) as web:
            browser.open(web.url)
            browser.wait("document.querySelectorAll('.tile').length > 3")
            yield browser
            browser.call("Page.navigate", url="about:blank")


def shown(page: Page, text: str) -> str:
    """Wait until the page has a text; all its text."""
    page.wait(f"document.getElementById('main').innerText.includes({text!r})")
    return str(page.ask("document.getElementById('main').innerText"))


def test_every_view_is_reachable_by_keyboard_and_runs_no_foreign_text(page: Page) -> None:
    assert "20-other" in shown(page, "10-sets")
    page.press("2")
    events = shown(page, "both tried to set")
    assert "onerror" in events, "the attack is shown as it is"
    page.press("j")
    page.press("j")
    page.press("k")
    page.press("Enter")
    shown(page, "Waterfall")
    page.press("3")
    shown(page, "with a history")
    page.ask("[...document.querySelectorAll('[data-row]')].find(link => link.textContent.startsWith('app')).focus()")
    page.press("Enter")
    assert "10-sets" in shown(page, "Changes")
    page.press("b")
    shown(page, "with a history")
    page.press("?")
    shown(page, "next and previous row")
    if page.ask("(overview.views || []).length"):
        page.press("4")
        assert "10-sets" in shown(page, "a program without NRI")
        page.press("5")
        shown(page, "with decisions")
        page.press("j")
        page.press("Enter")
        assert "no such file" in shown(page, "group-identity")
        page.press("6")
        placed = shown(page, "CPUs by topology-aware")
        assert "NUMA node #0" in placed and "Waiting for room: default/late/late" in placed
        page.press("/")
        for letter in "app":
            page.press(letter)
        page_text = shown(page, "Differences now")
        assert page_text.count("shop/web") >= 2 and "Agent" not in page_text and "default/app" in page_text
    assert page.ask("document.title") == "nri inspect"
    assert page.ask("document.querySelectorAll('main img, main script, [onerror]').length") == 0
    assert page.told == [], "errors in the page"


@pytest.mark.parametrize(
    ("limits", "text", "tone"),
    [
        ([64 << 20, 64 << 20], "No differences.", "good"),
        ([64 << 20, None], "No differences in the compared values; 1 were not compared.", "warn"),
        ([None, None], "Nothing was compared: no value could be read.", "warn"),
        ([], "Nothing was compared: no value was applied to a running container.", "soft"),
    ],
    ids=["all compared", "some", "none", "no value"],
)
def test_drift_is_good_only_if_every_value_was_compared(
    browser: Page, limits: list[int | None], text: str, tone: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-page-", dir="/tmp") as folder, Inspected(Path(folder), "") as node:
        node.limit_file("c1").unlink()
        for place, limit in enumerate(limits, 1):
            node.work(f"c{place}")
            if limit is not None:
                node.limit_file(f"c{place}").parent.mkdir(exist_ok=True)
                node.limit_file(f"c{place}").write_text(f"{limit}\n")
        with node.source() as source, Web(source) as web:
            browser.open(web.url)
            browser.wait("document.querySelectorAll('.tile').length > 3")
            browser.press("4")
            shown(browser, "Differences now")
            tones = browser.ask("[...document.querySelectorAll('main h2 + p')].map(each => each.className)")
            assert (tones, text in shown(browser, text)) == ([tone], True)
            browser.call("Page.navigate", url="about:blank")


def test_a_search_has_an_address_to_share_and_hides_the_token(page: Page) -> None:
    page.press("/")
    for letter in "fight":
        page.press(letter)
    page.wait("location.hash === '#/search?q=fight'")
    shown(page, "both tried to set")
    page.ask(
        "[...document.querySelectorAll('main a')].find(each => each.textContent.includes('list of events')).click()"
    )
    page.wait("location.hash === '#/events?q=fight'")
    page.wait("document.querySelectorAll('[data-row]').length === 1")
    assert "token" not in page.ask("location.href")


def test_a_search_looks_at_values_and_not_at_the_names_of_fields(page: Page) -> None:
    page.ask("location.hash = '#/search?q=duration_ms'")
    shown(page, "No matches.")


@pytest.mark.parametrize("view", VIEWS)
def test_a_narrow_window_has_no_horizontal_scrolling_and_dark_mode_is_dark(page: Page, view: str) -> None:
    page.size(360, 700)
    page.dark(True)
    page.ask(f"location.hash = {view!r}")
    page.wait(f"document.getElementById('main').dataset.at === {view!r}")
    assert page.ask("document.documentElement.scrollWidth") <= 360
    cut = "[...document.querySelectorAll('.scroll:not(.list)')].filter(each => each.scrollWidth > each.clientWidth)"
    assert page.ask(f"{cut}.map(each => each.innerText)") == [], "no table has columns out of sight"
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    page.size(1200, 760)
    page.dark(False)
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_event_rows_show_the_whole_time_and_duration(page: Page) -> None:
    for width, cells in ((1280, "th, td.time, td.num"), (360, "th.time, td.time")):
        page.size(width, 760)
        page.ask("location.hash = '#/events'")
        shown(page, "both tried to set")
        cut = (
            f"[...document.querySelectorAll('.list :is({cells})')].filter(each => each.scrollWidth > each.clientWidth)"
        )
        assert page.ask(f"{cut}.map(each => each.innerText)") == []
    page.size(1200, 760)


def test_a_refused_container_shows_the_plugin_and_the_reason(page: Page) -> None:
    page.ask(f"location.hash = '#/container?id={REFUSED_ID}'")
    assert "Not created: plugin 20-other refused: not this one" in shown(page, "Not created")
    assert page.ask("document.querySelector('nav [aria-current]').innerText") == "Containers"


def test_events_are_chosen_by_chips_and_ordered_by_column_titles_with_an_address_for_each(page: Page) -> None:
    page.ask("location.hash = '#/events'")
    page.wait("list && list.rows.length >= 3")
    times = page.ask("list.shown.map(row => row.time_ms)")
    assert times == sorted(times, reverse=True), "the newest first"
    page.ask("$('chip-outcome').value = 'conflict', $('chip-outcome').dispatchEvent(new Event('change'))")
    page.wait(
        "location.hash === '#/events?outcome=conflict' && list && list.asked.outcome && $('main').contains(list.box)"
    )
    assert page.ask("list.rows.every(row => row.steps.some(step => step.conflict))")
    assert page.ask("document.querySelectorAll('.chip.on').length") == 1
    page.ask("[...document.querySelectorAll('main a')].find(link => link.textContent === 'Clear all').click()")
    page.wait("location.hash === '#/events' && list && !list.asked.outcome && $('main').contains(list.box)")
    page.ask("[...document.querySelectorAll('th button')].find(button => button.textContent === 'Took').click()")
    page.wait("list && list.order && $('main').contains(list.box)")
    assert page.ask("location.hash") == "#/events?sort=slow"
    durations = page.ask("list.shown.map(row => row.duration_ms)")
    assert durations == sorted(durations, reverse=True)
    assert page.ask("document.querySelector('th[aria-sort=descending]').innerText") == "Took"
    page.ask("location.hash = '#/events?plugin=20-other&min=1000000'")
    page.wait("list && list.asked.min && list.rows.length === 0 && $('main').contains(list.box)")


def test_each_plugin_has_one_colour_in_the_legend_the_charts_the_list_and_the_waterfall(page: Page) -> None:
    page.ask("location.hash = '#/'")
    page.wait("document.querySelectorAll('.legend button').length >= 2")
    colours = page.ask(
        "[...document.querySelectorAll('.legend .dot')].map(dot => getComputedStyle(dot).backgroundColor)"
    )
    assert len(set(colours)) == len(colours) >= 2
    assert page.ask("document.querySelectorAll('figure svg').length") == 3
    strokes = page.ask("[...document.querySelectorAll('figure path')].map(path => getComputedStyle(path).stroke)")
    assert set(strokes) <= set(colours) and strokes
    page.ask("document.querySelector('.legend button').click()")
    assert page.ask("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    strokes = page.ask("[...document.querySelectorAll('figure path')].map(path => getComputedStyle(path).stroke)")
    assert colours[0] not in strokes, "the lines of a hidden plugin"
    page.ask("document.querySelector('.legend button').click()")
    page.ask("location.hash = '#/events?event=CreateContainer'")
    page.wait("document.querySelectorAll('.list .track i').length > 0")
    bars = page.ask(
        "[...document.querySelectorAll('.list .track i')].map(bar => getComputedStyle(bar).backgroundColor)"
    )
    assert set(bars) <= set(colours)
    page.ask("document.querySelector('[data-row]').click()")
    shown(page, "Waterfall")
    first = "getComputedStyle(document.querySelector('.waterfall .track i')).backgroundColor"
    assert page.ask(first) == page.ask("getComputedStyle(document.querySelector('.waterfall .dot')).backgroundColor")


def test_the_bars_of_all_events_have_one_scale(page: Page) -> None:
    page.ask("location.hash = '#/events'")
    page.wait("list && document.querySelectorAll('.list .track').length >= 3")
    widths = page.ask(
        "[...list.body.querySelectorAll('tr[aria-rowindex]')].slice(0, 3).map((row, at) => {"
        " const step = list.shown[at].steps[0], bar = row.querySelector('.track i');"
        " return step && bar && step.at_ms + step.duration_ms < list.scale_ms"
        " ? parseFloat(bar.style.width) / step.duration_ms * list.scale_ms : 100; })"
    )
    assert widths == pytest.approx([100.0] * 3, rel=0.01)


def test_a_container_has_its_state_and_who_set_each_value_in_force(page: Page) -> None:
    page.ask("location.hash = '#/container?id=c1'")
    text = shown(page, "Values in force")
    assert "State" in text and "Image" in text
    rows = page.ask("[...document.querySelectorAll('main table')][0].innerText")
    assert "MemLimit" in rows and "67108864" in rows and "10-sets" in rows


def test_an_unknown_event_or_container_leaves_the_console_empty(page: Page) -> None:
    for view in ("#/event?key=999999", "#/container?id=nothing", "#/agent?pod=nothing"):
        page.ask(f"location.hash = {view!r}")
        page.wait(f"document.getElementById('main').dataset.at === {view!r}")
    assert page.told == []


def test_a_paused_page_keeps_what_it_shows_until_it_continues(browser: Page, node: Inspected, live: Running) -> None:
    with Web(live) as web:
        browser.open(web.url)
        browser.wait("document.querySelectorAll('.tile').length > 3")
        assert "fake" in shown(browser, "NRI 0."), "the runtime and its version"
        browser.press("2")
        browser.wait("list && list.live")
        browser.press("p")
        browser.wait("$('state').innerText === 'paused' && $('pause').innerText === 'Continue'")
        before = browser.ask("list.rows.length")
        node.work()
        newest = live.events()["last"]
        wait_for(
            lambda: live.events()["last"] != newest or live.events()["rows"][0]["container"], "the events are read"
        )
        assert browser.ask("list.rows.length") == before
        browser.press("p")
        browser.wait(f"list && list.rows.length > {before} && $('state').innerText === 'live'")
        browser.call("Page.navigate", url="about:blank")


def luminance(colour: str) -> float:
    """The relative luminance of a colour, as WCAG defines it, plus 0.05."""
    channels = [int(text) / 255 for text in re.findall(r"\d+", colour)[:3]]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_colours_of_plugins_have_a_contrast_of_three_to_the_page(browser: Page, live: Running, dark: bool) -> None:
    dots = """Array.from({length: COLOURS}, (_, at) => {
      const dot = h("i", {class: "dot c" + at});
      document.body.append(dot);
      return getComputedStyle(dot).backgroundColor;
    })"""
    with Web(live) as web:
        browser.dark(dark)
        browser.open(web.url)
        browser.wait("document.querySelectorAll('.tile').length > 3")
        page_colour = luminance(browser.ask("getComputedStyle(document.body).backgroundColor"))
        colours = browser.ask(dots)
        browser.dark(False)
        browser.call("Page.navigate", url="about:blank")
    ratios = [max(luminance(c), page_colour) / min(luminance(c), page_colour) for c in colours]
    assert len(set(colours)) == 12 and min(ratios) >= 3, ratios


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_core_has_no_serious_finding_in_any_view(browser: Page, live: Running, dark: bool) -> None:
    script = axe()
    with Web(live) as web:
        browser.dark(dark)
        browser.open(web.url)
        browser.wait("document.querySelectorAll('.tile').length > 3")
        results = []
        key = live.events()["rows"][0]["key"]
        for view in (*VIEWS, f"#/event?key={key}", "#/agent", "#/help"):
            browser.ask(f"location.hash = {view!r}")
            browser.wait(f"document.getElementById('main').dataset.at === {view!r}")
            for width in (1200, 360):
                browser.size(width, 760)
                results += [f"{view}, {width} wide: {line}" for line in findings(browser, script)]
        browser.size(1200, 760)
        browser.dark(False)
        assert not results, "\n".join(results)


def test_without_the_token_the_page_requests_it_and_shows_nothing(browser: Page, recording: Recording) -> None:
    with Web(recording) as web:
        address = web.url.partition("#")[0]
        browser.open(address)
        browser.wait("document.querySelector('input[type=password]') !== null")
        assert "10-sets" not in browser.ask("document.body.innerText")
        for letter in web.token:
            browser.press(letter)
        browser.press("Enter")
        shown(browser, "10-sets")
        browser.call("Page.navigate", url="about:blank")


def test_ten_thousand_live_events_fit_in_the_page_and_keys_keep_working(
    browser: Page, node: Inspected, live: Running
) -> None:
    with Web(live) as web, node.busy(500.0, 10_200) as result:
        browser.open(web.url)
        browser.told.clear()
        browser.wait("document.querySelectorAll('.tile').length > 3")
        browser.press("2")
        shown(browser, "the newest first")
        browser.ask(
            "globalThis.frames = 0; requestAnimationFrame(function next() { frames++; requestAnimationFrame(next); })"
        )
        browser.wait("list && list.rows.length > 1000")  # a row among the first 200 would leave the list
        count = 0
        for key in itertools.chain("j" * 20, itertools.cycle("kj")):
            if result() >= 10_200:
                break
            before = browser.ask("document.activeElement.getAttribute('href')")
            browser.press(key)
            browser.wait(f"document.activeElement.getAttribute('href') !== {json.dumps(before)} && frames > {count}")
            count = browser.ask("frames")
        browser.wait("list.rows.length === 10000")
        assert browser.ask("document.querySelectorAll('[data-row]').length") < 200
        assert browser.ask("list.body.contains(document.activeElement)"), "the row is kept while others come"
        browser.ask("list.box.scrollTop = list.box.scrollHeight")
        browser.wait("list.body.querySelector('[aria-rowindex=\"10001\"]') !== null")
        browser.call("Page.navigate", url="about:blank")
    assert browser.told == []


def test_ten_thousand_recorded_events_are_loaded_on_scrolling(browser: Page) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-page-", dir="/tmp") as folder:
        with Inspected(Path(folder), "") as instance, instance.busy(1e6, 11_000) as result:
            wait_for(lambda: result() == 11_000, "all that is to be recorded")
        source = Recording(f"{folder}/traces")
        source.read()
        with Web(source) as web:
            browser.open(web.url)
            browser.wait("document.querySelectorAll('.tile').length > 3")
            browser.press("2")
            browser.wait("list && list.rows.length > 0")
            while browser.ask("list.rows.length") < 10_000:
                browser.ask("list.box.scrollTop = list.box.scrollHeight")
            last = "list.body.querySelector('[aria-rowindex=\"10001\"]')"
            browser.wait(f"list.box.scrollTop = list.box.scrollHeight, {last} !== null")
            browser.press("n")
            browser.wait("list.rows.length >= 500 && location.hash.includes('from=')")
            browser.call("Page.navigate", url="about:blank")
