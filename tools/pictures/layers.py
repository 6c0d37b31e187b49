"""The layers of the package and of its three large subpackages, as the contracts of import-linter have them.

A layer that does not exist yet is dashed.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from tools.pictures.svg import Picture

ROOT = Path(__file__).resolve().parents[2]
#: A few words about each layer and each part of one. A name without words is an error.
WORDS = {
    "cli": "the command nri",
    "inspector": "a web page",
    "conformance": "tests of runtimes and plugins",
    "pods": "nri pod",
    "testing": "a runtime for tests",
    "agent": "policies on a node",
    "engine": "a CRI engine",
    "proxy": "NRI in front of others",
    "plugins": "bundled plugins",
    "trace": "recordings",
    "adaptation": "the runtime's side",
    "stub": "the plugin's side",
    "placement": "CPUs and memory nodes",
    "service": "health and metrics over HTTP",
    "metrics": "numbers out",
    "oci": "config.json",
    "host": "/sys, cgroups",
    "cri": "CRI messages",
    "kube": "Kubernetes",
    "plugin_policy": "policy.toml",
    "config": "configuration in",
    "mux": "one socket for many",
    "ttrpc": "calls over bytes",
    "api": "messages, no socket",
    "stream": "deadlines",
    "threads": "parallel",
    "thread_pool": "a pool",
    "wire": "raw fields",
    "unix": "listening",
    "backoff": "pauses",
    "files": "whole files",
    "errors": "every exception",
    "rules": "where we differ",
    "interfaces": "others' shapes",
    "signals": "let in, and stop",
    "text": "texts",
    "mountinfo": "mounts",
    "lazy": "imports",
    "versions": "of runtimes",
    "user_agent": "who we are",
}
#: The rooms that are shown from inside, and the colour that they share with their box.
INSIDE = {"cli": "purple", "adaptation": "blue", "stub": "green"}
ALT = (
    "The layers of the package, from the command at the top to the exceptions at the bottom. Imports go down only. "
    "The table below has all packages in this order."
)
LEFT, RIGHT, ROW, GAP = 28, 556, 42, 8


def contracts() -> list[dict[str, list[str]]]:
    """The contracts of import-linter, in their order; each value is a list of lines."""
    parser = configparser.ConfigParser()
    parser.read_string((ROOT / ".importlinter").read_text(encoding="utf-8"))
    sections = [parser[name] for name in parser.sections() if name.startswith("importlinter:contract:")]
    return [{key: value.strip().splitlines() for key, value in section.items()} for section in sections]


def layers_of(container: str) -> list[list[str]]:
    """The rows of names in the `layers` contract of a package, highest first. LookupError if it has none."""
    for contract in contracts():
        if contract["type"] == ["layers"] and contract["containers"] == [container]:
            return [re.findall(r"\w+", layer) for layer in contract["layers"]]
    raise LookupError(f"{container} has no contract of layers")


def is_there(name: str) -> bool:
    """Whether a layer is more than a place in the list."""
    folder = ROOT / "src/nri"
    return (folder / name / "__init__.py").exists() or (folder / f"{name}.py").exists()


def draw() -> Picture:
    """The picture."""
    rows = layers_of("nri")
    height = 74 + len(rows) * (ROW + GAP) + 26
    picture = Picture(860, height, ALT)
    picture.words(LEFT, 30, "Imports go down only", bold=True, size=15)
    picture.words(LEFT, 50, "and never sideways: rooms on one line do not know each other", "soft", size=12)
    y = 74
    for row in rows:
        width = (RIGHT - LEFT - GAP * (len(row) - 1)) / len(row)
        for number, name in enumerate(row):
            x = LEFT + number * (width + GAP)
            colour = INSIDE.get(name, "plain")
            lines = [name, WORDS[name]]
            picture.box((x, y, width, ROW), lines, colour, bold=True, dashed=not is_there(name), size=13.5)
        y += ROW + GAP
    picture.words(LEFT, y + 6, "dashed: a place that is kept, nothing is there yet", "soft", size=12)
    picture.arrow((13, 74), (13, y - GAP))
    draw_insides(picture)
    return picture


def draw_insides(picture: Picture) -> None:
    """The three large rooms from inside, at the right."""
    x, width, y = RIGHT + 28, 248, 30
    for name, colour in INSIDE.items():
        rows = layers_of(f"nri.{name}")
        picture.words(x, y, f"inside {name}", colour, bold=True, size=14)
        y += 14
        for row in rows:
            part = (width - 5 * (len(row) - 1)) / len(row)
            for number, name_ in enumerate(row):
                picture.box((x + number * (part + 5), y, part, 22), name_, colour, size=12.5)
            y += 26
        y += 20
