"""Find what a dotted name of this package means, in the source alone: nothing is imported, so no extra is needed.

`Source` reads the files under a folder once. `resolve("nri.api.events.EventMask.parse")` says whether there is such a
module, class, function, constant or attribute; imported names and base classes are followed to where they stand.
Next: tests/docs/test_names.py and tests/docs/test_architecture.py, which ask.
"""

import ast
import builtins
import enum
from functools import cache
from pathlib import Path

#: Base classes of others that classes of ours have.
PLAIN: dict[str, object] = {
    "ABC": object,
    "Enum": enum.Enum,
    "IntEnum": enum.IntEnum,
    "NamedTuple": tuple,
    "Protocol": object,
}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module or class, those inside `if` and `try` included."""
    nodes: list[ast.stmt] = []
    for node in body:
        nodes.append(node)
        if isinstance(node, (ast.If, ast.Try)):
            nodes += statements(node.body + node.orelse)
    return nodes


def targets(node: ast.stmt) -> list[str]:
    """The plain names that an assignment binds."""
    bound = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [entry for target in bound for entry in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [name.id for name in names if isinstance(name, ast.Name)]


class Source:
    """The modules under `root`, which is the folder that holds the package `nri`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.members = cache(self._members)
        self.attributes = cache(self._attributes)

    def modules(self) -> list[str]:
        """The dotted names of all modules, generated code left out."""
        files = sorted(path for path in self.root.rglob("*.py") if not path.stem.endswith("_pb2"))
        return [".".join(path.relative_to(self.root).with_suffix("").parts).removesuffix(".__init__") for path in files]

    def file(self, module: str) -> Path | None:
        """The file of a module or package; None if there is none."""
        path = self.root.joinpath(*module.split("."))
        for entry in (path.with_suffix(".py"), path / "__init__.py"):
            if entry.is_file():
                return entry
        return None

    def _members(self, module: str) -> dict[str, ast.stmt | str]:
        """What a module holds: the definition of a name, or the dotted name that it was imported from."""
        file = self.file(module)
        assert file is not None
        results: dict[str, ast.stmt | str] = {}
        for node in statements(ast.parse(file.read_text(encoding="utf-8")).body):
            if isinstance(node, Definition):
                results[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                results |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
            elif isinstance(node, ast.Import):
                results |= {name.asname: name.name for name in node.names if name.asname}
            else:
                results |= dict.fromkeys(targets(node), node)
        return results

    def _attributes(self, module: str, name: str) -> frozenset[str] | None:
        """The attributes of a class, inherited ones included; None if a base is not ours, so that nothing is known."""
        node = self.members(module)[name]
        assert isinstance(node, ast.ClassDef)
        texts: set[str] = set()
        for part in ast.walk(node):
            if isinstance(part, Definition):
                texts.add(part.name)
            elif isinstance(part, ast.stmt):
                texts.update(targets(part))
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                texts.add(part.value)  # __slots__
            elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                texts.add(part.attr)
        for base in node.bases:
            home = self.locate(f"{module}.{ast.unparse(base)}")
            if home is None:
                kind = PLAIN.get(ast.unparse(base)) or getattr(builtins, ast.unparse(base), None)
                if kind is None:
                    return None
                texts.update(dir(kind))
                continue
            inherited = self.attributes(*home)
            if inherited is None:
                return None
            texts |= inherited
        return frozenset(texts)

    def locate(self, dotted: str) -> tuple[str, str] | None:
        """The module and name of a class of ours, imports followed; None for anything else."""
        module, _, name = dotted.rpartition(".")
        if self.file(module) is None:
            return None
        node = self.members(module).get(name)
        if isinstance(node, str):
            return self.locate(node)
        return (module, name) if isinstance(node, ast.ClassDef) else None

    def resolve(self, dotted: str) -> bool:
        """Whether a dotted name leads to something that is there."""
        parts = dotted.split(".")
        length = next((n for n in range(len(parts), 0, -1) if self.file(".".join(parts[:n]))), 0)
        module, remaining = ".".join(parts[:length]), parts[length:]
        if not remaining:
            return True
        if not length or remaining[0] not in self.members(module):
            return False
        home = self.locate(f"{module}.{remaining[0]}")
        if len(remaining) == 1 or home is None:
            return len(remaining) == 1 or isinstance(self.members(module)[remaining[0]], str)
        attributes = self.attributes(*home)
        return attributes is None or remaining[1] in attributes
