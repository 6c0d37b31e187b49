"""A report of sections with rows: as tables, JSON or an HTML page, and compared with an earlier report.

Texts from runtimes and plugins are cut and escaped in this module.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.errors import ConfigError
from nri.files import read_regular
from nri.text import plain

_MAX_TEXT_CHARS = 500
_MAX_REPORT_BYTES = 4 << 20
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top;"
    "border-bottom:1px solid #8884;overflow-wrap:anywhere}thead th{white-space:nowrap}"
    ".good{color:light-dark(#17692b,#7fd08f)}"
    ".bad{color:light-dark(#a11515,#ff9b9b)}dt{float:left;clear:left;width:9rem}dd{margin-left:9rem}"
)
_COLUMNS = (("What", "name"), ("Outcome", "outcome"), ("Read from", "where"), ("Note", "note"))
EXTRA_COLUMNS = ("where", "note")
#: The first words of good and of bad outcomes.
_GOOD, _BAD = ("applied", "yes", "ok"), ("wrong", "ignored", "refused", "no")


class Row(NamedTuple):
    """The result of a test.

    Attributes:
        name: the name of the test.
        outcome: the result, in a few words.
        where: the source from which the result was read.
        note: further information.
    """

    name: str
    outcome: str
    where: str = ""
    note: str = ""


@dataclass(slots=True)
class Section:
    """Rows of one kind under a title."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def shown(self) -> list[Row]:
        """The rows of the text report: the reason after an outcome's first words is moved to the notes."""
        parted = [(row, *row.outcome.partition(": ")[::2]) for row in self.rows]
        return [
            row._replace(outcome=outcome, note="; ".join(filter(None, (reason, row.note))))
            for row, outcome, reason in parted
        ]

    def add(self, name: str, outcome: str, where: str = "", note: str = "") -> None:
        """Add a row; long texts are cut."""
        self.rows.append(Row(*(plain(text, _MAX_TEXT_CHARS) for text in (name, outcome, where, note))))


@dataclass(slots=True)
class Report:
    """A report.

    Attributes:
        about: names and versions.
        sections: the sections in the order in which they are shown.
        incomplete: why the test stopped early; "" if the report is complete.
        runtime_gone: whether the test stopped early because the runtime stopped.
        stopped_by: the number of the signal that stopped the test; 0 if no signal stopped it.
    """

    title: str
    about: dict[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    incomplete: str = ""
    runtime_gone: bool = False
    stopped_by: int = 0

    def section(self, title: str) -> Section:
        """Add a section and return it."""
        self.sections.append(Section(title))
        return self.sections[-1]

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        sections = [
            {"title": section.title, "rows": [row._asdict() for row in section.rows]} for section in self.sections
        ]
        return {"title": self.title, "about": self.header(), "sections": sections}

    def header(self) -> dict[str, str]:
        """Names and versions, and the reason if the report is incomplete."""
        return self.about | ({"incomplete": self.incomplete} if self.incomplete else {})

    def differences(self, before: dict[tuple[str, str], str]) -> list[str]:
        """A line for each row whose outcome differs from the earlier report, and for each new or missing row.

        The reason after an outcome is not compared, because it may contain a process, container or path of that run.
        """
        now = {(section.title, row.name): row.outcome for section in self.sections for row in section.rows}
        places = dict.fromkeys((*before, *now))
        changes = [(place, before.get(place, "missing"), now.get(place, "missing")) for place in places]
        return [
            f"{': '.join(place)}: before {old}; now {new}"
            for place, old, new in changes
            if old.partition(": ")[0] != new.partition(": ")[0]
        ]

    def html(self) -> bytes:
        """The report as a self-contained HTML page without scripts."""
        digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        title = escape(self.title)
        about = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in self.header().items())
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>{_STYLE}</style></head><body><main><h1>{title}</h1><dl>{about}</dl>",
        ]
        for section in self.sections:
            shown = section.shown()
            filled = filled_columns(shown)
            rows = "".join(
                f'<tr><th scope="row">{escape(row.name)}</th>'
                f'<td class="{_css_class(row.outcome)}">{escape(row.outcome)}</td>'
                + "".join(f"<td>{escape(getattr(row, key))}</td>" for _, key in filled[2:])
                + "</tr>"
                for row in shown
            )
            head = "".join(f'<th scope="col">{name}</th>' for name, _ in filled)
            parts.append(
                f"<h2>{escape(section.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            )
        return "".join((*parts, "</main></body></html>\n")).encode()


def filled_columns(rows: list[Row]) -> list[tuple[str, str]]:
    """The titles and keys of the first two columns, and of all other columns that are not empty."""
    return [
        (title, key) for title, key in _COLUMNS if key not in EXTRA_COLUMNS or any(getattr(row, key) for row in rows)
    ]


def _css_class(outcome: str) -> str:
    word = outcome.split(" ", maxsplit=1)[0].rstrip(":,")
    return "good" if word in _GOOD else "bad" if word in _BAD else ""


def read_rows(path: str) -> dict[tuple[str, str], str]:
    """The outcomes of an earlier report (-o json), by section and row. Raises ConfigError for any other file."""
    try:
        document = parse_json(read_regular(path, _MAX_REPORT_BYTES))
    except OSError as error:
        raise ConfigError(path, "", error.strerror or str(error)) from None
    except ValueError as error:
        raise ConfigError(path, "", f"not JSON: {error}") from None
    try:
        return {
            (section["title"], row["name"]): str(row["outcome"])
            for section in document["sections"]
            for row in section["rows"]
        }
    except (TypeError, KeyError):
        step = "create one: nri conformance runtime -o json > FILE"
        raise ConfigError(path, "sections", "not a report of nri conformance", step) from None
