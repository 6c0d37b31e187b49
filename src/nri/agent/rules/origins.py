"""The places of the rules behind a pod's values, for `explain`: file, line and key. A default has no line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore

__all__ = ["with_places"]


def with_places(account: Mapping[str, Any], store: RuleStore, profile: Profile) -> dict[str, Any]:
    """Return an account of a pod with `rule_keys`: kind, key and place of each rule in force, and who decided by it."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for value in account["values"]:
        for kind, key in profile.origins(value["hook"], account.get("of", "")):
            document = store.document(kind)
            if document is None:
                continue
            row = rows.get((kind, key))
            if row is None:
                place = store.place(kind, key) if _written(document, key) else ""
                row = rows[kind, key] = {"kind": kind, "key": key, "place": place, "hooks": []}
            if value["hook"] not in row["hooks"]:
                row["hooks"].append(value["hook"])
    return {**account, "rules": store.sources(), "rule_keys": list(rows.values())}


def _written(document: Any, key: str) -> bool:
    """Whether a document has a key: a place in its spec, or an annotation."""
    name = key.removeprefix("annotation ")
    for part in ("metadata", "annotations", name) if name != key else ("spec", *key.split(".")):
        document = document.get(part) if isinstance(document, Mapping) else None
    return document is not None
