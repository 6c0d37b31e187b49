"""The keys of the engine and of the agent as Markdown, from the classes of their settings."""

from __future__ import annotations

from collections.abc import Iterable

from nri.agent.settings import AGENT_SETTINGS
from nri.config.listing import Key
from nri.engine.config import ENGINE_SETTINGS

__all__ = ["agent_settings", "engine_settings"]

#: More values than this are not listed.
_MAX_VALUES = 12


def table_of(key: Key) -> str:
    """The name of the table that a key is in; "" at the top of the file."""
    return key.key.rpartition(".")[0]


def title(table: str) -> str:
    """The heading of a table, as a file has it; one of several tables has two brackets."""
    if not table:
        return "At the top"
    return f"[[{table.removesuffix('[]')}]]" if table.endswith("[]") else f"[{table}]"


def cell(text: str) -> str:
    """A cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def default_of(key: Key) -> str:
    """The default of a key, as a file has it; its type if there is no default; all values if there are few."""
    kind = key.kind if len(key.kind.split(", ")) <= _MAX_VALUES else "list of names"
    default = f"`{key.default}`" if key.default else ""
    if key.needed:
        return f"{cell(kind)}, required"
    if " of " in kind and ", " in kind and default:
        return f"{default}; {cell(kind)}"
    return default or cell(kind)


def engine_settings() -> str:
    """The engine's keys."""
    return sections(ENGINE_SETTINGS.known_keys())


def agent_settings() -> str:
    """The agent's keys."""
    return sections(AGENT_SETTINGS.known_keys())


def sections(keys: Iterable[Key]) -> str:
    """A section for each table, its keys in the order of the classes."""
    out = []
    tables: dict[str, list[Key]] = {"": []}
    for key in keys:
        tables.setdefault(table_of(key), []).append(key)
    for table, rows in tables.items():
        out.append(f"## {title(table)}\n")
        out.append("| key | default, or type | meaning |\n|---|---|---|")
        out += [f"| `{key.key.rpartition('.')[2]}` | {default_of(key)} | {cell(key.meaning)} |" for key in rows]
        out.append("")
    return "\n".join(out)
