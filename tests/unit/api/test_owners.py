"""Queries of the table of owners."""

import pytest

from nri.api import messages as m
from nri.api import owners

TABLE = m.OwningPlugins()
TABLE.owners["c1"].simple[m.Field.CPUShares] = "10-a"
TABLE.owners["c1"].simple[m.Field.OciHooks] = "10-a,20-b"
TABLE.owners["c1"].simple[999] = "30-future"
TABLE.owners["c1"].compound[m.Field.Env].owners["PATH"] = "20-b"
TABLE.owners["c1"].compound[m.Field.Namespace].owners["pid"] = "-10-a"


def test_the_owner_of_a_field_is_found_by_name_and_by_number() -> None:
    assert owners.owner(TABLE, "c1", "CPUShares") == "10-a"
    assert owners.owner(TABLE, "c1", m.Field.CPUShares) == "10-a"
    assert owners.owner(TABLE, "c1", "CPUQuota") is None


def test_the_owner_of_an_entry_is_found_by_its_key() -> None:
    assert owners.owner(TABLE, "c1", "Env", "PATH") == "20-b"
    assert owners.owner(TABLE, "c1", "Env", "HOME") is None
    assert owners.entry_owners(TABLE, "c1", "Namespace") == {"pid": "-10-a"}


def test_all_owners_of_a_container_are_listed_in_field_order() -> None:
    assert owners.owners_of(TABLE, "c1") == {
        "OciHooks": "10-a,20-b",
        "Env[PATH]": "20-b",
        "CPUShares": "10-a",
        "Namespace[pid]": "-10-a",
        "Field(999)": "30-future",
    }
    assert next(iter(owners.owners_of(TABLE, "c1"))) == "OciHooks"


def test_a_query_for_an_unknown_container_adds_no_entry() -> None:
    before = TABLE.SerializeToString(deterministic=True)
    assert owners.owner(TABLE, "c9", "CPUShares") is None
    assert owners.entry_owners(TABLE, "c9", "Env") == {}
    assert owners.entry_owners(TABLE, "c1", "Mounts") == {}
    assert owners.owners_of(TABLE, "c9") == {}
    assert TABLE.SerializeToString(deterministic=True) == before


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown field 'CpuShares'"):
        owners.owner(TABLE, "c1", "CpuShares")
