"""Sphinx settings. `make docs` builds the pages with warnings as errors."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
# What these packages name in __all__ is public (docs/reference).
PUBLIC = ("nri", "nri.testing", "nri.adaptation", "nri.ttrpc", "nri.config", "nri.metrics", "nri.oci", "nri.mux")
# Long pages to look things up in, and the level of the sections that are folded there.
FOLDED = {"deviations": 2, "deviations-agent": 2, "deviations-plugins": 2, "protocol/messages": 3}
META = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

project = "nri"
author = copyright = "The nri developers"  # noqa: A001  # Sphinx's own name
release = version = META["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"  # docstrings write `name`, which Markdown and people read as code

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Class attributes", "params_style")]

html_theme = "furo"
html_title = f"nri {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_js_files = ["page.js"]


def unreleased() -> str:
    """The fragments of changelog.d as one section, in the order of their kinds in pyproject.toml."""
    lines: list[str] = []
    for kind in META["tool"]["towncrier"]["type"]:
        texts = [
            path.read_text(encoding="utf-8").strip().replace("\n", "\n  ")
            for path in sorted((ROOT / "changelog.d").glob(f"*.{kind['directory']}.md"))
        ]
        if texts:
            lines += [f"### {kind['name']}", "", *(f"- {text}" for text in texts), ""]
    return "\n".join(["## Not yet released", "", *lines]) if lines else ""


def fill_changelog(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the unreleased fragments where the changelog page asks for them."""
    if page == "changelog":
        source[0] = source[0].replace("<!-- unreleased -->", unreleased())


def fill_command_line(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the verbs where the page of the command asks for them."""
    if page == "reference/cli":
        sys.path.insert(0, str(ROOT / "docs"))
        from cli_reference import plugin_flags, reference

        text = source[0].replace("<!-- command line -->", reference())
        source[0] = text.replace("<!-- plugin flags -->", plugin_flags())


def fill_plugins(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the bundled plugins where their page asks for them."""
    if page == "reference/plugins":
        sys.path.insert(0, str(ROOT / "docs"))
        from plugins_reference import reference

        source[0] = source[0].replace("<!-- bundled plugins -->", reference())


def mark_examples(_app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """What a docstring indents after a blank line is an example or drawing, and `|` a table: show them as they are."""
    before = [""]
    for line in lines:
        shown = f"    {line}" if line.startswith("|") else line
        words = [earlier for earlier in before if earlier.strip()]
        if shown.startswith("    ") and not before[-1].strip() and words and not words[-1].startswith((" ", "::")):
            before += ["::", ""]
        before.append(shown)
    lines[:] = before[1:]


def skip_tuple_fields(_app: Sphinx, _what: str, _name: str, member: object, skip: bool, _options: object) -> bool:
    """Leave out the fields of a NamedTuple: its docstring describes each one."""
    return skip or type(member).__name__ == "_tuplegetter"


def inline_pictures(app: Sphinx, tree: nodes.document, _page: str) -> None:
    """Put the drawings into the page itself, where they follow the theme that the reader has chosen."""
    for image in list(tree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if path.parent.name == "pictures":
            drawing = f'<span class="picture">{path.read_text(encoding="utf-8")}</span>'
            image.replace_self(nodes.raw("", drawing, format="html"))


def fold_sections(_app: Sphinx, tree: nodes.document, page: str) -> None:
    """Fold the sections with tables on long reference pages; their headings stay visible, as an index."""
    depth = FOLDED.get(page, 0)
    for section in [s for s in tree.findall(nodes.section) if _depth(s) == depth]:
        rows = sum(len(list(body.findall(nodes.row))) for body in section.findall(nodes.tbody))
        if not rows:
            continue
        count = f"{rows} entries" if rows > 1 else "1 entry"
        head = f'<details class="fold"><summary>{count}</summary>'
        section.insert(1, nodes.raw("", head, format="html"))
        section.append(nodes.raw("", "</details>", format="html"))


def _depth(section: nodes.Node) -> int:
    depth = 0
    while isinstance(section, nodes.section):
        section, depth = section.parent, depth + 1
    return depth


def load_lazy_names(_app: Sphinx) -> None:
    """Load what the public packages import on first use: autodoc sees only names that are already loaded."""
    for name in PUBLIC:
        if importlib.util.find_spec(name) is None:
            continue  # not part of this release
        module = importlib.import_module(name)
        for public in module.__all__:
            module.__dict__.setdefault(public, getattr(module, public))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", load_lazy_names)
    app.connect("autodoc-skip-member", skip_tuple_fields)
    app.connect("autodoc-process-docstring", mark_examples, priority=400)  # napoleon comes later
    app.connect("doctree-resolved", inline_pictures)
    app.connect("doctree-resolved", fold_sections)
    app.connect("source-read", fill_changelog)
    app.connect("source-read", fill_command_line)
    app.connect("source-read", fill_plugins)
