"""Claims of the fields in a reply: plain ones, changed owners, and conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge.claims import Claimer
from nri.adaptation.merge.entries import read
from nri.adaptation.merge.ledger import Ledger
from nri.api import messages as m
from nri.api.fields import TREE
from nri.errors import ConflictError, PluginError
from nri.rules import Rules
from tests.unit.adaptation.merge.build import adjusts


class Claims:
    """Plugins that claim one after the other on one container."""

    def __init__(self, rules: Rules = Rules.DEFAULT) -> None:
        self.rules = rules
        self.ledger = Ledger(rules)

    def claim(self, plugin: str, **adjust: Any) -> bool:
        message = adjusts(**adjust).adjust
        return Claimer(self.ledger, self.rules, "ctr", plugin, m.ContainerAdjustment()).claim(read(message, TREE))

    def owner(self, field: int, key: str = "") -> str:
        return self.ledger.owner("ctr", field, key)


ENV: dict[str, Any] = {"env": [{"key": "A", "value": "1"}]}


def test_a_free_field_is_plain_and_gets_its_owner() -> None:
    claims = Claims()
    assert claims.claim("10-a", **ENV)
    assert claims.owner(m.Field.Env, "A") == "10-a"


def test_claiming_a_field_of_another_plugin_is_a_conflict() -> None:
    claims = Claims()
    claims.claim("10-a", **ENV)
    with pytest.raises(ConflictError, match='plugins "20-b" and "10-a" both tried to set Env A'):
        claims.claim("20-b", **ENV)


def test_a_field_set_again_by_its_owner_is_not_plain() -> None:
    claims = Claims()
    claims.claim("10-a", **ENV)
    assert not claims.claim("10-a", **ENV)


def test_a_removed_key_is_cleared_and_free_for_the_next_plugin() -> None:
    claims = Claims()
    assert not claims.claim("10-a", env=[{"key": "-A"}])
    assert claims.owner(m.Field.Env, "A") == "-10-a"
    claims.claim("20-b", **ENV)
    assert claims.owner(m.Field.Env, "A") == "20-b"


def test_in_the_reference_removing_a_namespace_claims_it() -> None:
    claims = Claims(Rules.REFERENCE)
    assert claims.claim("10-a", linux={"namespaces": [{"type": "-pid"}]})
    with pytest.raises(ConflictError):
        claims.claim("20-b", linux={"namespaces": [{"type": "pid"}]})


def test_a_removal_mark_on_an_unremovable_field_is_an_error_with_field_and_plugin() -> None:
    claims = Claims()
    with pytest.raises(PluginError, match="plugin 10-a: cannot remove NOFILE: rlimits does not support removal"):
        claims.claim("10-a", rlimits=[{"type": "-NOFILE"}])


def test_arguments_with_a_removal_mark_change_their_owner() -> None:
    claims = Claims()
    assert claims.claim("10-a", args=["a"])
    assert not claims.claim("20-b", args=["", "b"])
    assert claims.owner(m.Field.Args) == "20-b"


def test_a_removal_mark_alone_leaves_arguments_without_an_owner() -> None:
    claims = Claims()
    claims.claim("10-a", args=["a"])
    claims.claim("20-b", args=[""])
    assert claims.owner(m.Field.Args) == "-20-b"


def test_an_rdt_reset_clears_the_owners_of_all_rdt_fields() -> None:
    claims = Claims()
    claims.claim("10-a", linux={"rdt": {"clos_id": {"value": "gold"}}})
    assert not claims.claim("20-b", linux={"rdt": {"remove": True}})
    assert claims.owner(m.Field.RdtClosID) == "-20-b"


def test_hooks_have_all_their_plugins_as_owners_and_stay_plain() -> None:
    claims = Claims()
    hooks = {"prestart": [{"path": "/h"}]}
    assert claims.claim("10-a", hooks=hooks) and claims.claim("20-b", hooks=hooks)
    assert claims.owner(m.Field.OciHooks) == "10-a,20-b"


def test_device_rules_have_no_owner() -> None:
    claims = Claims()
    rules = {"linux": {"resources": {"devices": [{"type": "c"}]}}}
    assert claims.claim("10-a", **rules) and claims.claim("20-b", **rules)
    assert claims.ledger.claims() == []
