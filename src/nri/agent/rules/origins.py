"""For `explain`: the file, line and key of the rules that led to a pod's values. A default has no line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore


def with_places(account: Mapping[str, Any], store: RuleStore, profile: Profile) -> dict[str, Any]:
    """Add `rule_keys` to a pod's explanation: kind, key, file and hooks of each rule that a decision used."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for value in account["values"]:
        for kind, key in profile.origins(value["hook"], account.get("of", "")):
            document = store.document(kind)
            if document is None:
                continue
            row = rows.get((kind, key))
            if row is None:
                place = store.place(kind, key) if _has_key(document, key) else ""
                row = rows[kind, key] = {"kind": kind, "key": key, "place": place, "hooks": []}
            if value["hook"] not in row["hooks"]:
                row["hooks"].append(value["hook"])
    return {**account, "rules": store.sources(), "rule_keys": list(rows.values())}


def _has_key(document: Any, key: str) -> bool:
    """Return whether a document has a key, which is a path in its spec, or "annotation NAME"."""
    name = key.removeprefix("annotation ")
    for part in ("metadata", "annotations", name) if name != key else ("spec", *key.split(".")):
        document = document.get(part) if isinstance(document, Mapping) else None
    return document is not None
