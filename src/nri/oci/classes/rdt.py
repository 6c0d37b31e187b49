"""RDT classes: what the name of a class means for ``linux.intelRdt``, the container's group in resctrl.

    classes:
      gold:
        schemata: ["L3:0=ff0", "MB:0=100"]
        enableMonitoring: true
      silver: {closID: batch}

Without a configuration each name is the name of a group, as containerd has it. goresctrl's format is read for the names
of its classes (``partitions: {NAME: {classes: ...}}``): a tool that configures resctrl from it makes groups of these
names. Next: `nri.oci.generator`.
"""

from __future__ import annotations

import re
from typing import Any

from nri.config import Source, read, read_file
from nri.config.complaint import together
from nri.config.place import at, show
from nri.config.syntax import line_of
from nri.errors import ConfigError, SpecError
from nri.oci.cdi.file import is_clos_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from nri.config.place import Path

__all__ = ["RdtClasses"]

#: The name that goresctrl gives to the root group, and the spec's.
_ROOT_CLASS, _ROOT_GROUP = "system/default", "/"
#: A line of resctrl's schemata: a resource, and a value for each cache.
_SCHEMA = re.compile(r"[A-Z0-9]{1,16}:\d{1,6}=[0-9a-fA-F]{1,64}(;\d{1,6}=[0-9a-fA-F]{1,64}){0,1023}")


class _Class:
    closID: str = ""  # noqa: N815  (the spec's words, here and below)
    schemata: list[str] | None = None
    enableMonitoring: bool = False  # noqa: N815


class _Partition:
    """A part of the caches in goresctrl's format; only the names of its classes matter here."""

    l2Allocation: Any = None  # noqa: N815
    l3Allocation: Any = None  # noqa: N815
    mbAllocation: Any = None  # noqa: N815
    classes: dict[str, Any] | None = None


class _File:
    options: Any = None
    classes: dict[str, _Class | None] | None = None
    partitions: dict[str, _Partition] | None = None


class RdtClasses:
    """The RDT classes of a configuration, or without one: any name.

    Args:
        config: the configuration; `RdtClasses.read(path)` takes it from a file.
        prefix: what the names of groups begin with, so that two runtimes can share a machine.

    Raises:
        ConfigError: something in it cannot be used, with source, line, key and value.
    """

    def __init__(self, config: Source | None = None, *, prefix: str = "") -> None:
        self._prefix = prefix
        self._classes: dict[str, _Class] | None = None
        if config is None:
            return
        file = read(_File, [config]) if config.text.strip() else _File()
        self._classes = {name: one or _Class() for name, one in (file.classes or {}).items()}
        problems = [problem for name, one in self._classes.items() for problem in _problems(config, name, one)]
        for place, partition in (file.partitions or {}).items():
            for name in partition.classes or ():
                self._classes[name] = _Class()
                if not _is_group(name):
                    problems.append(_no_folder(config, ("partitions", place, "classes", name), name))
        if problems:
            raise together(problems)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, prefix: str = "") -> RdtClasses:
        """Read the classes of a file. ConfigError if it cannot be used."""
        return cls(read_file(path), prefix=prefix)

    @property
    def names(self) -> list[str]:
        """Names of all classes; none where any name is one."""
        return sorted(self._classes or ())

    def resolve(self, name: str) -> dict[str, Any]:
        """The spec's ``linux.intelRdt`` of a class. SpecError if there is none, or no group can have its name."""
        known = _Class() if self._classes is None else self._classes.get(name)
        if known is None:
            raise SpecError("", f'no RDT class "{name}"; known: {", ".join(self.names) or "none"}')
        group = known.closID or name
        if group in (_ROOT_CLASS, _ROOT_GROUP):
            made: dict[str, Any] = {"closID": _ROOT_GROUP}
        elif _is_group(group):
            made = {"closID": self._prefix + group}
        else:
            raise SpecError("", f'RDT class "{name}": "{group}" can be no name of a folder')
        if known.schemata:
            made["schemata"] = list(known.schemata)
        if known.enableMonitoring:
            made["enableMonitoring"] = True
        return made


def _is_group(name: str) -> bool:
    return name == _ROOT_CLASS or is_clos_id(name)


def _problems(source: Source, name: str, one: _Class) -> Iterator[ConfigError]:
    here: Path = ("classes", name)
    if not _is_group(one.closID or name):
        yield _no_folder(source, (*here, "closID") if one.closID else here, one.closID or name)
    for place, line in enumerate(one.schemata or ()):
        if not _SCHEMA.fullmatch(line):
            yield _error(source, (*here, "schemata", place), f'"{line}" is no line such as "L3:0=ff;1=f0"')


def _no_folder(source: Source, path: Path, group: str) -> ConfigError:
    return _error(source, path, f'"{group}" can be no name of a folder')


def _error(source: Source, path: Path, reason: str) -> ConfigError:
    return ConfigError(at(source, line_of(source, path)), show(path), reason)
