"""The page, its HTTP headers, and snapshots in a single file.

`page.html`, `page.css` and `page.js` become one document, so that a snapshot needs no other file. The content
security policy allows the page's script and style by their hashes, so that no other script can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from nri.inspector.sources import SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nri.inspector.sources import Source

#: A snapshot has at most this many events.
MAX_EVENTS: Final = 5000
#: A snapshot has the changes of at most this many containers.
MAX_CONTAINERS: Final = 500
_DATA: Final = '<script id="data" type="application/json">null</script>'


def page() -> bytes:
    """Return the page without data: the document with its style and its script."""
    document = _file("page.html")
    for tag, name in (("style", "page.css"), ("script", "page.js")):
        document = document.replace(f"<{tag}></{tag}>", f"<{tag}>\n{_file(name)}</{tag}>")
    return document.encode()


def _file(name: str) -> str:
    return (files("nri.inspector") / name).read_text(encoding="utf-8")


def _policy(source: str) -> str:
    """The content security policy of the page."""

    def hash_of(tag: str) -> str:
        match = re.search(f"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        text = match[1] if match else ""
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {hash_of('script')}; style-src {hash_of('style')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def headers() -> dict[str, str]:
    """Return the headers of all answers."""
    return {
        "Content-Security-Policy": f"{_policy(page().decode())}; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def snapshot(source: Source) -> bytes:
    """Return the page with the data of a source as a single file, within limits for events, containers and bytes."""
    events, has_all_events = _encoded_rows(_by_key(source.rows(MAX_EVENTS, MAX_CONTAINERS)), source.snapshot_bytes)
    listed = source.containers()
    shown = listed["containers"][:MAX_CONTAINERS]
    explained = ((row["id"], source.container(row["id"])) for row in shown)
    chains, has_all_chains = _encoded_rows(explained, source.snapshot_bytes)
    overview = source.overview()
    if not has_all_events:
        overview["problems"] = [*overview.get("problems", ()), f"only the newest {len(events)} events are in this file"]
    if not has_all_chains:
        line = f"the changes of only {len(chains)} containers are in this file"
        overview["problems"] = [*overview.get("problems", ()), line]
    views = {name: _view(source, name) for name in overview["views"]}
    for pod in ((views.get("agent") or {}).get("pods") or ())[:MAX_CONTAINERS]:
        views[f"agent/{pod['key']}"] = _view(source, "agent", pod["key"])
    left_out = len(listed["containers"]) - len(shown) + listed["left_out"]
    parts = {
        "overview": _json({**overview, "mode": "snapshot"}),
        "events": f"[{', '.join(text for _, text in events)}]",
        "containers": _json({"containers": shown, "left_out": left_out}),
        "chains": f"{{{', '.join(f'{_json(ident)}: {text}' for ident, text in chains)}}}",
        "views": _json({name: view for name, view in views.items() if view}),
    }
    del events, chains
    empty = page().decode()
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_policy(empty)}">'
    before, _, after = empty.replace("<head>", f"<head>\n{meta}", 1).partition(_DATA)
    opening, _, closing = _DATA.partition("null")
    pieces = [before, opening, "{"]
    for number, name in enumerate(list(parts)):
        pieces += [", " * (number > 0), f'"{name}": ', parts.pop(name)]
    return b"".join(map(str.encode, (*pieces, "}", closing, after)))


def _json(value: Any) -> str:
    """A value as JSON that cannot end the script element."""
    return json.dumps(value).replace("<", "\\u003c")


def _by_key(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their keys. Duplicates, which a crafted recording may have, are dropped."""
    keys = set[str]()
    for row in rows:
        if row["key"] not in keys:
            keys.add(row["key"])
            yield row["key"], row


def _encoded_rows(rows: Iterable[tuple[str, Any]], max_bytes: int) -> tuple[list[tuple[str, str]], bool]:
    """Rows as JSON up to a number of bytes, and whether all rows are included."""
    encoded: list[tuple[str, str]] = []
    for name, row in rows:
        if row is None:
            continue
        text = _json(row)
        max_bytes -= len(text)
        if max_bytes < 0:
            return encoded, False
        encoded.append((name, text))
    return encoded, True


def _view(source: Source, name: str, of: str = "") -> dict[str, Any] | None:
    try:
        return source.view(name, of)
    except SourceUnavailable as error:
        return {"unanswered": str(error)}
