"""Trees that record which of their keys were read."""

from __future__ import annotations

from nri.pods.unread_keys import unread, watch


def test_unread_keys_have_paths() -> None:
    tree = watch({"spec": {"a": [{"comand": 1, "name": "x"}], "whole": {"k": 1}, "passed": 1}, "other": 2})
    spec = tree["spec"]
    one = spec["a"][0]
    assert [*spec.get("whole").items()] == [("k", 1)]
    one.get("name"), one.get("command")
    keys = [key.path for key in unread(tree, frozenset(["spec.passed"]))]
    assert keys == ["other", "spec.a[0].comand"]
    assert one["comand"] == 1


def test_a_shared_object_is_wrapped_once_and_scalars_are_unchanged() -> None:
    shared = {"key": 1}
    tree = watch([shared, shared])
    tree[0].get("key")
    assert tree[0] is tree[1] and not [*unread(tree, frozenset())]
    assert watch(None) is None and watch("text") == "text"
