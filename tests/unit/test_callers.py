"""A public function or class of the package is used by the package, or is its documented interface.

What only tests call is no part of the product: a test of it proves nothing about what runs. Uses are found by resolved
imports. A decorator that registers a name, a text `module:Name` by which a part is loaded, an entry point of the
project and an example count as well. The `__all__` of a package is its documented interface, and needs no caller.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
_LOADED = re.compile(r"([a-z_0-9]+):([A-Za-z_0-9]+)$")

#: TO BE EMPTIED: helpers by which tests speak a protocol by hand, or look into a running part.
ELSEWHERE = {
    "nri.adaptation.adaptation.parts_of", "nri.host.process.oom_score",
    "nri.kube.container_resources.decoded_resources", "nri.mux.frames.pack", "nri.ttrpc.envelope.encode_request",
    "nri.wire.tag",
}  # fmt: skip

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Decorators that change what they decorate, and register it nowhere.
_NOT_REGISTERING = {
    "asynccontextmanager", "cache", "contextmanager", "dataclass", "final", "lru_cache", "overload",
    "runtime_checkable", "total_ordering", "unique", "wraps",
}  # fmt: skip


class Name(NamedTuple):
    """A top-level name of a module."""

    module: str
    name: str


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package, without generated ones."""
    matches = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if ".pb." not in f"{name}.":
            matches[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return matches


def is_package(module: str) -> bool:
    """Whether a module is a package."""
    return (SOURCE.joinpath(*module.split(".")) / "__init__.py").exists()


def interface(tree: ast.Module) -> set[str]:
    """The names in `__all__` of a module."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id == "__all__" and value is not None:
            return {item.value for item in ast.walk(value) if isinstance(item, ast.Constant)}  # type: ignore[misc]
    return set()


def definitions() -> Iterator[Name]:
    """Public functions and classes, without those that a decorator registers."""
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, _DEFINITIONS) and not node.name.startswith("_"):
                decorators = {ast.unparse(entry).partition("(")[0].rpartition(".")[2] for entry in node.decorator_list}
                if decorators <= _NOT_REGISTERING:
                    yield Name(module, node.name)


def imported(tree: ast.Module) -> tuple[dict[str, str], dict[str, Name]]:
    """The modules and the names that a module imports from the package, by what they are called there."""
    aliases: dict[str, str] = {}
    names: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("nri"):
            for item in node.names:
                full = f"{node.module}.{item.name}"
                if full in modules():
                    aliases[item.asname or item.name] = full
                names[item.asname or item.name] = Name(node.module, item.name)
        elif isinstance(node, ast.Import):
            for item in node.names:
                aliases[item.asname or item.name] = item.name
    return aliases, names


def used_in(module: str, tree: ast.Module) -> Iterator[Name]:
    """The names of the package that a module uses; those of its own in other top-level parts than their definition."""
    aliases, names = imported(tree)
    if not is_package(module):  # a package only hands on what it imports
        yield from names.values()
    for part in tree.body:
        own_entry = part.name if isinstance(part, _DEFINITIONS) else ""
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != own_entry:
                yield Name(module, node.id)
                yield names.get(node.id, Name(module, node.id))
            elif isinstance(node, ast.Attribute):
                base = ast.unparse(node.value)
                if base in aliases or base in modules():
                    yield Name(aliases.get(base, base), node.attr)


def loaded_by_text() -> set[tuple[str, str]]:
    """The last part of a module and a name, of parts that are loaded by a text, and of the project's entry points."""
    texts = [
        node.value
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts += project.get("scripts", {}).values()
    texts += [text for group in project.get("entry-points", {}).values() for text in group.values()]
    return {match.groups() for text in texts if (match := _LOADED.search(text))}  # type: ignore[misc]


def unused() -> list[Name]:
    """Names that the package does not use, and that are not in the interface of a package."""
    used = {name for module, tree in modules().items() for name in used_in(module, tree)}
    for path in (ROOT / "examples").rglob("*"):
        if path.is_file() and path.suffix in ("", ".py"):
            used |= set(imported(ast.parse(path.read_text(encoding="utf-8")))[1].values())
    faces = {package: imported(tree)[1] for package, tree in modules().items() if is_package(package)}
    public = set()
    for package, names in faces.items():
        everything = interface(modules()[package])
        for alias, name in names.items():
            if alias in everything or Name(package, alias) in used:
                public.add(name)
        public |= {Name(package, name) for name in everything}
    texts = loaded_by_text()
    return sorted(
        name
        for name in definitions()
        if name not in used | public and (name.module.rpartition(".")[2], name.name) not in texts
    )


def test_every_public_function_and_class_has_a_caller_in_the_package() -> None:
    missing = {f"{name.module}.{name.name}" for name in unused()}
    assert not missing - ELSEWHERE, f"only tests use these, or nobody: {', '.join(sorted(missing - ELSEWHERE))}"
    assert not ELSEWHERE - missing, f"these have a caller now; take them out: {', '.join(sorted(ELSEWHERE - missing))}"
