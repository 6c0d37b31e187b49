"""Owners of fields, and the texts of conflicts."""

import pytest

from nri.adaptation.merge import Claim, Conflict, Ledger
from nri.api import messages as m
from nri.errors import ConflictError
from nri.rules import Rules
from nri.text import quote

SHARES, ENV, HOOKS = m.Field.CPUShares, m.Field.Env, m.Field.OciHooks


def test_a_conflict_has_both_plugins_and_the_field() -> None:
    ledger = Ledger(Rules.DEFAULT)
    ledger.claim("ctr", SHARES, "", "00-foo")
    with pytest.raises(ConflictError) as caught:
        ledger.claim("ctr", SHARES, "", "10-bar")
    assert caught.value.conflict == Conflict("ctr", SHARES, "CPUShares", "", "00-foo", "10-bar")


def test_a_conflict_of_a_simple_field_has_the_references_text_with_its_trailing_blank() -> None:
    text = 'plugins "10-bar" and "00-foo" both tried to set CPUShares '
    assert str(ConflictError(Conflict("ctr", SHARES, "CPUShares", "", "00-foo", "10-bar"))) == text


def test_a_conflict_of_an_entry_has_its_key() -> None:
    assert (
        str(Conflict("ctr", ENV, "Env", "A", "00-foo", "10-bar"))
        == 'plugins "10-bar" and "00-foo" both tried to set Env A'
    )


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("10-foo", '"10-foo"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("a\tb\n\x01\x7f", r'"a\tb\n\x01\x7f"'),
        ("ä\u00a0\u200b😀", '"ä\\u00a0\\u200b😀"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_names_are_quoted_as_in_the_reference(name: str, quoted: str) -> None:
    assert quote(name) == quoted


def test_containers_have_separate_owners() -> None:
    ledger = Ledger(Rules.DEFAULT)
    assert ledger.claim("one", SHARES, "", "00-foo")
    assert ledger.claim("two", SHARES, "", "10-bar")


def test_a_cleared_field_has_the_marked_name_of_the_clearing_plugin() -> None:
    ledger = Ledger(Rules.REFERENCE)
    ledger.claim("ctr", ENV, "A", "00-foo")
    ledger.clear("ctr", ENV, "A", "10-bar")
    assert ledger.owner("ctr", ENV, "A") == "-10-bar"
    with pytest.raises(ConflictError, match=r'"20-baz" and "10-bar"'):
        ledger.claim("ctr", ENV, "A", "20-baz")
    assert not ledger.claim("ctr", ENV, "A", "10-bar"), "the claim is not new, so it returns False"


def test_a_rollback_restores_every_owner_and_forgets_the_journal() -> None:
    ledger = Ledger(Rules.DEFAULT)
    ledger.claim("ctr", ENV, "A", "00-foo")
    before, mark = ledger.message(), ledger.mark()
    ledger.clear("ctr", ENV, "A", "10-bar")
    ledger.claim("ctr", ENV, "A", "10-bar")
    ledger.claim("ctr", SHARES, "", "10-bar")
    ledger.accumulate("ctr", HOOKS, "10-bar")
    ledger.rollback(mark)
    assert ledger.message() == before
    assert len(ledger.claims()) == 1


def test_the_journal_has_the_owners_before_and_after() -> None:
    ledger = Ledger(Rules.DEFAULT)
    ledger.claim("ctr", ENV, "A", "00-foo")
    mark = ledger.mark()
    ledger.clear("ctr", ENV, "A", "10-bar")
    ledger.claim("ctr", ENV, "A", "10-bar")
    ledger.accumulate("ctr", HOOKS, "00-foo")
    ledger.accumulate("ctr", HOOKS, "10-bar")
    assert ledger.claims(mark) == [
        Claim("ctr", ENV, "A", "00-foo", "-10-bar"),
        Claim("ctr", ENV, "A", "-10-bar", "10-bar"),
        Claim("ctr", HOOKS, "", "", "00-foo"),
        Claim("ctr", HOOKS, "", "00-foo", "00-foo,10-bar"),
    ]
    assert [claim.cleared for claim in ledger.claims(mark)] == [True, False, False, False]


def test_owners_for_validators_are_grouped_by_container_field_and_key() -> None:
    ledger = Ledger(Rules.DEFAULT)
    ledger.claim("ctr", SHARES, "", "00-foo")
    ledger.claim("other", ENV, "A", "10-bar")
    owners = ledger.message().owners
    assert dict(owners["ctr"].simple) == {SHARES: "00-foo"}
    assert dict(owners["other"].compound[ENV].owners) == {"A": "10-bar"}


@pytest.mark.parametrize(("rules", "shown"), [(Rules.DEFAULT, "A\\n\\x1b[2J"), (Rules.REFERENCE, "A\n\x1b[2J")])
def test_conflict_keys_escaped(rules: Rules, shown: str) -> None:
    ledger = Ledger(rules)
    ledger.claim("ctr", ENV, "A\n\x1b[2J", "00-foo")
    with pytest.raises(ConflictError) as caught:
        ledger.claim("ctr", ENV, "A\n\x1b[2J", "10-bar")
    assert caught.value.whole_text == f'plugins "10-bar" and "00-foo" both tried to set Env {shown}'
    assert str(caught.value).isprintable()
    assert caught.value.conflict.key == "A\n\x1b[2J"
