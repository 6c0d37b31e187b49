"""RDT classes: each class name selects the ``linux.intelRdt`` settings, which put a container into a resctrl group.

    classes:
      gold:
        schemata: ["L3:0=ff0", "MB:0=100"]
        enableMonitoring: true
      silver: {closID: batch}

Without a configuration each class name is the name of a group, as in containerd. In goresctrl's own format only the
class names are used (``partitions: {NAME: {classes: ...}}``), because a tool that configures resctrl from such a file
creates groups with these names. Keys of this format may be in any letter case, and the class ``system/default`` or
``""`` is the root group.
"""

from __future__ import annotations

import re
from typing import Any

from nri.config import Source, read, read_file
from nri.config.complaint import combined_error
from nri.config.key_path import location, path_text
from nri.config.syntax import line_of
from nri.errors import ConfigError, SpecError
from nri.oci.cdi.file import is_clos_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from nri.config.key_path import Path

#: The name of the root group in goresctrl, and in the OCI spec.
_ROOT_CLASS, _ROOT_GROUP = "system/default", "/"
#: A line of resctrl's schemata: a resource, and a value for each cache.
_SCHEMA = re.compile(r"[A-Z0-9]{1,16}:\d{1,6}=[0-9a-fA-F]{1,64}(;\d{1,6}=[0-9a-fA-F]{1,64}){0,1023}")


class _Kubernetes:
    """Whether annotations of pods and containers may select a class; goresctrl has the same keys."""

    _any_case = True
    denyPodAnnotation: bool = False  # noqa: N815
    denyContainerAnnotation: bool = False  # noqa: N815


class _Class:
    _any_case = True
    kubernetes: _Kubernetes | None = None
    closID: str = ""  # noqa: N815  (the spec's keys, here and below)
    schemata: list[str] | None = None
    enableMonitoring: bool = False  # noqa: N815


class _PartitionClass:
    """A class of a cache partition; its allocations belong to the tool that configures resctrl."""

    _any_case = True
    l2Allocation: Any = None  # noqa: N815
    l3Allocation: Any = None  # noqa: N815
    mbAllocation: Any = None  # noqa: N815
    kubernetes: _Kubernetes | None = None


class _Partition:
    """A cache partition in goresctrl's format; only the names of its classes are used."""

    _any_case = True
    l2Allocation: Any = None  # noqa: N815
    l3Allocation: Any = None  # noqa: N815
    mbAllocation: Any = None  # noqa: N815
    classes: dict[str, _PartitionClass | None] | None = None


class _File:
    _any_case = True
    options: Any = None
    classes: dict[str, _Class | None] | None = None
    partitions: dict[str, _Partition | None] | None = None


class RdtClasses:
    """The RDT classes of a configuration. Without a configuration, every class name is accepted.

    Args:
        config: the configuration; `RdtClasses.read(path)` reads it from a file.
        prefix: prepended to group names, so that two runtimes can share a machine.

    Raises:
        ConfigError: the configuration is invalid; the error names source, line, key and value.
    """

    def __init__(self, config: Source | None = None, *, prefix: str = "") -> None:
        self._prefix = prefix
        self._classes: dict[str, _Class] | None = None
        if config is None:
            return
        file = read(_File, [config]) if config.text.strip() else _File()
        self._classes = {name: rdt_class or _Class() for name, rdt_class in (file.classes or {}).items()}
        problems = [
            problem for name, rdt_class in self._classes.items() for problem in _problems(config, name, rdt_class)
        ]
        for partition_name, partition in (file.partitions or {}).items():
            for name, settings in ((partition.classes if partition else None) or {}).items():
                path: Path = ("partitions", partition_name, "classes", name)
                if not _is_valid_group(name):
                    problems.append(_invalid_name(config, path, name))
                if (name or _ROOT_CLASS) in self._classes:
                    problems.append(_error(config, path, "two classes have this name"))
                rdt_class = self._classes[name or _ROOT_CLASS] = _Class()
                rdt_class.kubernetes = settings.kubernetes if settings else None
        if problems:
            raise combined_error(problems)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, prefix: str = "") -> RdtClasses:
        """Read the classes of a file. Raises ConfigError if it is invalid."""
        return cls(read_file(path), prefix=prefix)

    @property
    def names(self) -> list[str]:
        """The sorted names of all classes. Returns an empty list if every name is accepted."""
        return sorted(self._classes or ())

    def resolve(self, name: str) -> dict[str, Any]:
        """The spec's ``linux.intelRdt`` of a class. Raises SpecError if it is unknown, or its group name is invalid."""
        name = name or _ROOT_CLASS
        rdt_class = _Class() if self._classes is None else self._classes.get(name)
        if rdt_class is None:
            raise SpecError("", f'no RDT class "{name}"; known: {", ".join(self.names) or "none"}')
        group = rdt_class.closID or name
        if group in (_ROOT_CLASS, _ROOT_GROUP):
            settings: dict[str, Any] = {"closID": _ROOT_GROUP}
        elif _is_valid_group(group):
            settings = {"closID": self._prefix + group}
        else:
            raise SpecError("", f'RDT class "{name}": "{group}" is not a valid folder name')
        if rdt_class.schemata:
            settings["schemata"] = list(rdt_class.schemata)
        if rdt_class.enableMonitoring:
            settings["enableMonitoring"] = True
        return settings

    def resolve_annotation(self, name: str, *, is_of_pod: bool) -> dict[str, Any]:
        """The settings of a class that an annotation of a pod or of a container selects.

        Raises SpecError if the class is unknown, or if it must not be selected so.
        """
        settings = self.resolve(name)
        rdt_class = (self._classes or {}).get(name or _ROOT_CLASS)
        denials = (rdt_class and rdt_class.kubernetes) or _Kubernetes()
        if denials.denyPodAnnotation if is_of_pod else denials.denyContainerAnnotation:
            whose = "pods" if is_of_pod else "containers"
            raise SpecError("", f'RDT class "{name}" must not be selected by annotations of {whose}')
        return settings


def _is_valid_group(name: str) -> bool:
    return name == _ROOT_CLASS or is_clos_id(name)


def _problems(source: Source, name: str, rdt_class: _Class) -> Iterator[ConfigError]:
    path: Path = ("classes", name)
    if not _is_valid_group(rdt_class.closID or name):
        yield _invalid_name(source, (*path, "closID") if rdt_class.closID else path, rdt_class.closID or name)
    for index, line in enumerate(rdt_class.schemata or ()):
        if not _SCHEMA.fullmatch(line):
            yield _error(source, (*path, "schemata", index), f'"{line}" is not a schemata line such as "L3:0=ff;1=f0"')


def _invalid_name(source: Source, path: Path, group: str) -> ConfigError:
    return _error(source, path, f'"{group}" is not a valid folder name')


def _error(source: Source, path: Path, reason: str) -> ConfigError:
    return ConfigError(location(source, line_of(source, path)), path_text(path), reason)
