"""Names in words are names in the code: what pages and docstrings write between backticks is still there."""

import ast
import builtins
import keyword
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from nri.api import messages as m
from tests.support.names import Source

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Source(ROOT / "src")
PAGES = sorted(
    [page for places in ("*.md", "docs/**/*.md", "examples/**/*.md", "src/**/*.md") for page in ROOT.glob(places)]
)
CODE = sorted(
    path
    for folder in ("src", "tools", "examples", "bench", "docs", "tests/support")
    for path in ROOT.glob(f"{folder}/**/*.py")
    if not path.stem.endswith("_pb2")
)
OURS = [path for path in CODE if path.is_relative_to(ROOT / "src")]
FACES = [path for path in OURS if path.name == "__init__.py"]
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"nri(?:\.\w+)+")
CLASS = re.compile(r"([A-Z]\w*[a-z]\w*)(?:\.(\w+))?(?:\(.*\))?")
WORD = re.compile(r"([a-z_]+)/?")
PATH = re.compile(r"(?:src|tests|tools|docs|examples|bench|proto|changelog\.d|requirements)/[\w./+-]*\w")
#: What begins like a name of ours: packages and services of the wire, loggers, files.
OTHERS = ("nri.pkg.", "nri.io", "nri.admin.v", "nri.plugin.<", "nri.sock", "nri.txt")
#: Classes that people who use this package write.
THEIRS = {"Config", "GetID", "HTTPInjector", "PodName", "SayHello"}
KEYWORDS = {*keyword.kwlist, "self"}


def texts(path: Path) -> str:
    """What a file says in words: a page without its blocks of code, or the docstrings and comments of a program."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    comments = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    return "\n\n".join([*(ast.get_docstring(node) or "" for node in nodes), *comments])


@cache
def spans(path: Path) -> list[str]:
    """What a file has between backticks."""
    return SPAN.findall(texts(path))


@cache
def planned() -> tuple[str, ...]:
    """Packages that have their place in the list of layers, and may be spoken of before they come."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return tuple(f"nri.{name}" for layer in contract["layers"] for name in re.findall(r"\w+", layer))


@cache
def wire_names() -> set[str]:
    """The names that the protocol gives: messages, enums and their values, services, methods."""
    file = m.PodSandbox.DESCRIPTOR.file
    names = {*file.message_types_by_name, *file.enum_types_by_name, *file.services_by_name}
    names |= {value.name for enum in file.enum_types_by_name.values() for value in enum.values}
    return names | {method.name for service in file.services_by_name.values() for method in service.methods}


@cache
def homes() -> dict[str, set[str]]:
    """Every name at the top of a module of ours, and the modules that have it."""
    found: dict[str, set[str]] = {}
    for module in SOURCE.modules():
        for name in SOURCE.members(module):
            found.setdefault(name, set()).add(module)
    return found


def is_known(name: str, attribute: str | None) -> bool:
    """Whether there is such a class or function, with such an attribute, in this package, Python or the protocol."""
    if name in wire_names() or hasattr(m.Container, name) or hasattr(builtins, name) or name in THEIRS:
        return True
    if attribute is None or name not in homes():
        return name in homes()
    classes = filter(None, (SOURCE.locate(f"{module}.{name}") for module in homes()[name]))
    return any((known := SOURCE.attributes(*home)) is None or attribute in known for home in classes)


def is_inside(package: Path, word: str) -> bool:
    """Whether a word is a module in this package, the package, a name at the top of any module, or Python's."""
    modules = {package.name, *(path.stem for path in package.rglob("*"))}
    return word in modules or word in homes() or word in KEYWORDS


def gone(names: Iterable[tuple[Path, str]]) -> list[str]:
    """Names that lead nowhere, each with the file that has them."""
    return sorted({f"{path.relative_to(ROOT).as_posix()}: {name}" for path, name in names})


def test_a_dotted_name_leads_to_something() -> None:
    names = [
        (path, found[0])
        for path in [*PAGES, *CODE]
        for span in spans(path)
        if (found := DOTTED.match(span)) and not span.startswith(OTHERS)
    ]
    assert len(names) > 200
    assert not gone((path, name) for path, name in names if not SOURCE.resolve(name) and name not in planned())


def test_a_path_of_this_tree_exists() -> None:
    paths = [(path, span) for path in [*PAGES, *CODE] for span in spans(path) if PATH.fullmatch(span)]
    assert len(paths) > 20
    assert not gone((path, span) for path, span in paths if not (ROOT / span).exists())


def test_a_class_in_a_docstring_is_there() -> None:
    names = [(path, found) for path in OURS for span in spans(path) if (found := CLASS.fullmatch(span))]
    assert len(names) > 100
    assert not gone((path, found[0]) for path, found in names if not is_known(found[1], found[2]))


def test_a_package_speaks_of_modules_that_it_has() -> None:
    words = [(path, found[1]) for path in FACES for span in spans(path) if (found := WORD.fullmatch(span))]
    assert len(words) > 50
    assert not gone((path, word) for path, word in words if not is_inside(path.parent, word))


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("nri.api.events", True),
        ("nri.api.event", False),
        ("nri.api.events.EventMask.parse", True),
        ("nri.api.events.EventMask.parses", False),
        ("nri.Plugin.main", True),
        ("nri.Plugin.time_left", True),  # of its base class
        ("nri.Plugin.time_right", False),
        ("nri.api.messages.PodSandbox", True),
        ("nri.adaptation.Pipeline", False),
    ],
)
def test_names_are_looked_up_in_the_source(name: str, there: bool) -> None:
    assert SOURCE.resolve(name) is there
