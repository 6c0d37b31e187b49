"""Packages whose names are imported on first use (PEP 562), so that a program imports only what it uses."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy(
    package: dict[str, object], names: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Args:
        package: the package's `globals()`, in which imported names are stored.
        names: the names of each module below the package, separated by spaces.
    """
    homes = {name: module for module, its_names in names.items() for name in its_names.split()}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        from importlib import import_module

        value = package[name] = getattr(import_module(f"{package['__name__']}.{homes[name]}"), name)
        return value

    return load, lambda: list(homes)
