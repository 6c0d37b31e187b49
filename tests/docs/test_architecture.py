"""The page about the code says what is there: layers and rooms as in the contracts, and every link to a definition."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.names import Source
from tools.way_of_an_event import Call, plugin_ways, runtime_ways

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
SOURCE = Source(ROOT / "src")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
#: A link to a module, class, function or constant is written [`NAME`], and its file stands at the end of the page.
DEFINITION = re.compile(r"^\[`([\w.]+)`\]: \.\./(src/\S+)$", re.MULTILINE)
LINK = re.compile(r"\[`([\w.]+)`\](?!\()")
ROOM = re.compile(r"\*\*\[`(nri[\w.]*)`\]\*\*")
LINKS = dict(DEFINITION.findall(TEXT))


def layers_of(package: str) -> list[list[str]]:
    """The lines of a package's contract, highest first."""
    (contract,) = (row for row in CONTRACTS if row["type"] == "layers" and row["containers"] == [package])
    return [re.findall(r"\w+", line) for line in contract["layers"]]


def is_there(module: str) -> bool:
    return SOURCE.file(module) is not None


def section(title: str) -> str:
    """The text below a heading, up to the next one of its rank."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def layers_on_the_page() -> list[tuple[list[str], list[str]]]:
    """For each layer: the names in its heading, and the rooms that have a paragraph below it."""
    found = re.split(r"^### (.*)$", section("The rooms"), flags=re.MULTILINE)[1:]
    return [(found[i].split(" | "), ROOM.findall(found[i + 1])) for i in range(0, len(found), 2)]


def test_the_layers_are_those_of_the_contract() -> None:
    assert [heading for heading, _ in layers_on_the_page()] == layers_of("nri")


def test_every_layer_that_is_there_has_its_paragraph_in_its_place() -> None:
    for heading, rooms in layers_on_the_page():
        described = [room.removeprefix("nri.") for room in rooms if room.count(".") == 1]
        assert described == [name for name in heading if is_there(f"nri.{name}")]


@pytest.mark.parametrize("package", ["nri.adaptation", "nri.stub", "nri.cli"])
def test_the_rooms_inside_are_those_of_their_contract_in_its_order(package: str) -> None:
    inside = package.count(".") + 1  # a room in a room has its paragraph behind it
    described = [room for room in ROOM.findall(TEXT) if room.startswith(f"{package}.") and room.count(".") == inside]
    contract = [f"{package}.{name}" for line in layers_of(package) for name in line]
    assert described == [room for room in contract if is_there(room)]
    assert all(map(is_there, contract))


def test_every_package_has_its_paragraph() -> None:
    packages = {".".join(path.parent.relative_to(ROOT / "src").parts) for path in ROOT.glob("src/nri/**/__init__.py")}
    rooms = ROOM.findall(TEXT)
    assert packages - set(rooms) == set()
    assert len(rooms) == len(set(rooms))


def test_every_link_has_its_file_and_every_file_its_link() -> None:
    assert set(LINK.findall(DEFINITION.sub("", TEXT))) == set(LINKS)
    assert len(DEFINITION.findall(TEXT)) == len(LINKS)


@pytest.mark.parametrize("name", LINKS)
def test_what_is_linked_stands_in_that_file(name: str) -> None:
    path = ROOT / LINKS[name]
    assert path.is_file(), f"there is no {LINKS[name]}"
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    if name.startswith("nri"):
        assert module == name
        return
    defined, _, attribute = name.partition(".")
    assert not isinstance(SOURCE.members(module).get(defined, ""), str), f"{LINKS[name]} does not define {defined}"
    known = SOURCE.attributes(module, defined) if attribute else None
    assert known is None or attribute in known, f"{defined} has no {attribute}"


def test_the_threads_are_those_of_the_source() -> None:
    texts = [path.read_text() for folder in ("adaptation", "ttrpc") for path in ROOT.glob(f"src/nri/{folder}/**/*.py")]
    started = {name for text in texts for name in re.findall(r'f?"(nri-[\w-]*)', text)}
    table, words = section("Threads").split("A plugin is one thread.")
    assert set(re.findall(r"^\| `(nri-[\w-]*)`", table, re.MULTILINE)) == started
    stub = [path.read_text() for path in ROOT.glob("src/nri/stub/**/*.py")]
    theirs = {name for text in stub for name in re.findall(r'name=f?"(nri-[\w-]*)', text)}
    assert set(re.findall(r"`(nri-[\w-]*)`", words)) == theirs


@pytest.mark.pure
@pytest.mark.parametrize(("ways", "least"), [(runtime_ways, 18), (plugin_ways, 2)], ids=["runtime", "plugin"])
def test_the_steps_are_in_the_order_in_which_an_event_takes_them(
    ways: Callable[[], list[list[Call]]], least: int
) -> None:
    calls = [call.function for call in ways()[0]]
    steps = dict.fromkeys(LINK.findall(section("The way of CreateContainer")))
    taken = [(name, calls.index(name)) for name in steps if name in calls]
    assert len(taken) >= least
    assert [name for name, _ in taken] == [name for name, _ in sorted(taken, key=lambda each: each[1])]


def test_contributing_has_the_same_layers_as_far_as_they_are_there() -> None:
    package = ROOT / "src" / "nri"
    there = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    block = re.search(r"```text\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    layers = [[room for room in layer if room in there] for layer in layers_of("nri")]
    assert [re.split(r" {2,}", line)[0].split(" | ") for line in block[1].splitlines()] == [*filter(None, layers)]


@pytest.mark.parametrize("page", ["docs/index.md", "README.md", "CONTRIBUTING.md"])
def test_the_page_is_linked(page: str) -> None:
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#:]+\.md)\)", path.read_text(encoding="utf-8"))
    assert PAGE in [(path.parent / target).resolve() for target in targets]
