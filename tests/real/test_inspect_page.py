"""The page of `nri inspect` in a real Chromium: each view, by the keyboard alone, and what attacks it stays text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.errors import ConflictError, PluginRejected
from nri.inspector.page import snapshot
from nri.inspector.sources import Recording
from nri.inspector.web import Web
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.recorder import Recorder
from tests.support.browser import Page, chromium
from tests.support.made_plugins import plugin
from tests.support.needs import need_tool

#: Breaks out of text, of an attribute and of a script, where it is let: then the title says so.
ATTACK = "\"'></script><img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    """A container that one plugin changes, one that two fight over, and one that is refused; all texts are attacks."""

    def second(_: Any, container: nri.Container) -> nri.Adjustment | None:
        if "bad" in container.name:
            raise nri.Reject(f"not this one {ATTACK}")
        return nri.Adjustment().add_env("A", "2") if "fight" in container.name else None

    def first(*_: Any) -> nri.Adjustment:
        return nri.Adjustment().add_env("A", ATTACK).add_annotation(f"note{ATTACK}", ATTACK)

    with tempfile.TemporaryDirectory(prefix="nri-page-", dir="/tmp") as folder:
        with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as made:
            made.add(plugin("sets", create_container=first), "10").add(plugin("other", create_container=second), "20")
            pod = make_pod(name=f"web{ATTACK}", namespace="shop")
            made.create_container(pod, make_container(id="c1", name=f"app{ATTACK}"))
            with pytest.raises(ConflictError):
                made.create_container(pod, make_container(id="c2", name="fight"))
            with pytest.raises(PluginRejected):
                made.create_container(pod, make_container(id="c3", name="bad"))
        source = Recording(folder)
        source.read()
        yield source


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium(need_tool("chromium")) as page:
        yield page


@pytest.fixture(params=["served", "snapshot"])
def page(request: pytest.FixtureRequest, browser: Page, recording: Recording, tmp_path: Path) -> Iterator[Page]:
    """The overview, served and as a file."""
    browser.told.clear()
    if request.param == "snapshot":
        file = tmp_path / "node.html"
        file.write_bytes(snapshot(recording))
        browser.open(file.as_uri())
        browser.wait("document.querySelectorAll('.tile').length > 3")
        yield browser
    else:
        with Web(recording) as web:
            browser.open(web.url)
            browser.wait("document.querySelectorAll('.tile').length > 3")
            yield browser
            browser.call("Page.navigate", url="about:blank")


def shown(page: Page, text: str) -> str:
    """Wait until the page has a text; all its text."""
    page.wait(f"document.getElementById('main').innerText.includes({text!r})")
    return str(page.ask("document.getElementById('main').innerText"))


def test_every_view_is_reached_by_keys_and_draws_and_no_text_of_others_runs(page: Page) -> None:
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
    page.ask("[...document.querySelectorAll('[data-row]')].find(each => each.textContent.startsWith('app')).focus()")
    page.press("Enter")
    assert "10-sets" in shown(page, "Who changed what")
    page.press("b")
    shown(page, "with a history")
    page.press("?")
    shown(page, "next and previous row")
    assert page.ask("document.title") == "nri inspect"
    assert page.ask("document.querySelectorAll('main img, main script, [onerror]').length") == 0
    assert page.told == [], "errors in the page"


def test_a_search_has_an_address_that_can_be_shared_and_hides_the_token(page: Page) -> None:
    page.press("/")
    for letter in "fight":
        page.press(letter)
    page.wait("location.hash === '#/events?q=fight'")
    page.wait("document.querySelectorAll('[data-row]').length === 1")
    assert "token" not in page.ask("location.href")


@pytest.mark.parametrize("view", ["#/", "#/events", "#/containers", "#/container?id=c1"])
def test_a_narrow_window_needs_no_scrolling_to_the_side_and_dark_is_dark(page: Page, view: str) -> None:
    page.size(360, 700)
    page.dark(True)
    page.ask(f"location.hash = {view!r}")
    page.wait("document.querySelector('main h1') !== null")
    assert page.ask("document.documentElement.scrollWidth") <= 360
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    page.size(1200, 760)
    page.dark(False)
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_the_token_the_page_asks_for_it_and_shows_nothing(browser: Page, recording: Recording) -> None:
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
