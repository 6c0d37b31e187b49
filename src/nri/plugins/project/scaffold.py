"""Write a new plugin's project from templates: code, test, image, manifests.

The templates contain markers such as `@name@`. The project includes nri as a wheel with its hash, because this project
does not own the name `nri` on the package index: pip must not look for it there.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

from nri.api.naming import check_index
from nri.errors import ConfigError, NriError
from nri.plugins.project.wheel import own_wheel

#: The file of the project for each template.
FILES = {
    "plugin.py.txt": "@module@.py",
    "tests/test_plugin.py.txt": "tests/test_@module@.py",
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "Containerfile.txt": "Containerfile",
    "containerignore.txt": ".containerignore",
    "gitignore.txt": ".gitignore",
    "nri.txt.txt": "nri.txt",
    "deploy/daemonset.yaml.txt": "deploy/daemonset.yaml",
    "deploy/plugin.service.txt": "deploy/@name@.service",
}

TEMPLATES = Path(__file__).parent / "templates"

#: Modules that plugins and their tests import: a file of that name in the project would hide the module.
IMPORTED_MODULES = frozenset(("click", "google", "nri", "pytest", "yaml"))


def names_of(name: str, idx: str) -> dict[str, str]:
    """Return the values of the markers in the templates. Raises ConfigError if the name or the index is invalid."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ConfigError(
            "command line",
            "NAME",
            f'"{name}" is not a valid name: use lower case letters, digits and single dashes, such as pod-name',
        )
    try:
        check_index(idx)
    except ValueError as error:
        raise ConfigError("command line", "--idx", str(error)) from None
    words = name.split("-")
    module, class_name = "_".join(words), "".join(word.capitalize() for word in words)
    if keyword.iskeyword(module) or keyword.iskeyword(class_name):
        raise ConfigError("command line", "NAME", f'"{name}" is a keyword of Python', "choose another name")
    if module in IMPORTED_MODULES or module in sys.stdlib_module_names:
        raise ConfigError(
            "command line",
            "NAME",
            f"{module}.py would hide the module {module}: choose another name",
        )
    return {"name": name, "module": module, "class": class_name, "Name": " ".join(words).capitalize(), "idx": idx}


def scaffold(folder: Path, name: str, idx: str) -> list[str]:
    """Write all files, and return their paths. Raises NriError if the folder is not empty."""
    names = names_of(name, idx)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NriError(f"{folder}: not an empty folder. Choose another --folder, or remove the files in this folder")
    wheel = own_wheel(folder / "wheels")
    names |= {"nri_version": wheel.version, "nri_wheel": wheel.path.name, "nri_sha256": wheel.sha256}
    paths = [str(wheel.path)]
    for template, target in FILES.items():
        path = folder / fill(target, names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill((TEMPLATES / template).read_text(encoding="utf-8"), names), encoding="utf-8")
        paths.append(str(path))
    return paths


def fill(text: str, names: dict[str, str]) -> str:
    """Replace the markers in a template. Unknown markers stay."""
    return re.sub(r"@(\w+)@", lambda match: names.get(match[1], match[0]), text)
