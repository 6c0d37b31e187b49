"""Names between backticks on pages and in docstrings exist in the code."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.support.names import Source
from tools.pictures.layers import layers_of

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
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"nri(?:\.\w+)+")
PATH = re.compile(r"(?:src|tests|tools|docs|examples|bench|proto|changelog\.d|requirements)/[\w./+-]*\w")
#: Prefixes of names that only look like ours: protocol packages and services, loggers, files, values of Helm charts.
OTHERS = (
    "nri.pkg.", "nri.io", "nri.admin.v", "nri.plugin.", "nri.sock", "nri.txt", "nri.runtime.", "nri.patchRuntimeConfig",
)  # fmt: skip


def texts(path: Path) -> str:
    """The prose of a file: a page without its code blocks, or the docstrings and comments of a program."""
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
    return tuple(f"nri.{name}" for layer in layers_of("nri") for name in layer)


def missing_names(names: Iterable[tuple[Path, str]]) -> list[str]:
    """Names that lead nowhere, each with the file that has them."""
    return sorted({f"{path.relative_to(ROOT).as_posix()}: {name}" for path, name in names})


def test_dotted_names_exist() -> None:
    names = [
        (path, match[0])
        for path in [*PAGES, *CODE]
        for span in spans(path)
        if (match := DOTTED.match(span)) and not span.startswith(OTHERS)
    ]
    assert len(names) > 200
    assert not missing_names((path, name) for path, name in names if not SOURCE.resolve(name) and name not in planned())


def test_paths_exist() -> None:
    paths = [(path, span) for path in [*PAGES, *CODE] for span in spans(path) if PATH.fullmatch(span)]
    assert len(paths) > 20
    assert not missing_names((path, span) for path, span in paths if not (ROOT / span).exists())


@pytest.mark.parametrize(
    ("name", "exists"),
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
def test_names_are_looked_up_in_the_source(name: str, exists: bool) -> None:
    assert SOURCE.resolve(name) is exists
