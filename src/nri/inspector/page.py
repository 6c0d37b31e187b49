"""The page as bytes: with the policy by which a browser runs its own script and nothing else, and as a snapshot.

The policy names the page's one script and one style by their hashes: a script in a name or an error has no way to run,
even if the page did not write all that comes from others as text. Next: `page.html`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from nri.inspector.sources import Unanswered, first

if TYPE_CHECKING:
    from nri.inspector.sources import Source

__all__ = ["MOST_CONTAINERS", "MOST_EVENTS", "headers", "page", "snapshot"]

#: The most that a snapshot has.
MOST_EVENTS: Final = 5000
MOST_CONTAINERS: Final = 500
_DATA: Final = '<script id="data" type="application/json">null</script>'


def page() -> bytes:
    """The page, without data."""
    return (files("nri.inspector") / "page.html").read_bytes()


def _policy(source: str) -> str:
    """The content security policy of the page."""

    def hashed(tag: str) -> str:
        found = re.search(f"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        text = found[1] if found else ""
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {hashed('script')}; style-src {hashed('style')}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )


def headers() -> dict[str, str]:
    """The headers of all answers."""
    return {
        "Content-Security-Policy": f"{_policy(page().decode())}; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def snapshot(source: Source) -> bytes:
    """The page with what a source has, as one file that needs nothing else; bounded in events and containers."""
    events: dict[str, Any] = {}
    for row in first(source, MOST_EVENTS):
        events[row["key"]] = source.event(row["key"]) if len(events) < MOST_CONTAINERS else row
    listed = source.containers()
    shown = listed["containers"][:MOST_CONTAINERS]
    chains = {row["id"]: source.container(row["id"]) for row in shown}
    overview = source.overview()
    views = {name: _view(source, name) for name in overview["views"]}
    for pod in ((views.get("agent") or {}).get("pods") or ())[:MOST_CONTAINERS]:
        views[f"agent/{pod['key']}"] = _view(source, "agent", pod["key"])
    data = {
        "overview": {**overview, "mode": "snapshot"},
        "events": [row for row in events.values() if row],
        "containers": {"containers": shown, "left_out": len(listed["containers"]) - len(shown) + listed["left_out"]},
        "chains": {ident: chain for ident, chain in chains.items() if chain},
        "views": {name: view for name, view in views.items() if view},
    }
    text = json.dumps(data).replace("<", "\\u003c")
    empty = page().decode()
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_policy(empty)}">'
    filled = _DATA.replace("null", text)
    return empty.replace("<head>", f"<head>\n{meta}", 1).replace(_DATA, filled, 1).encode()


def _view(source: Source, name: str, of: str = "") -> dict[str, Any] | None:
    try:
        return source.view(name, of)
    except Unanswered as error:
        return {"unanswered": str(error)}
