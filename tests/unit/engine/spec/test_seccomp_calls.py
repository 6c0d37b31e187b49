"""The tables of system calls: no name twice, no name in two tables that contradict each other."""

from __future__ import annotations

from itertools import combinations

from nri.engine.spec.capabilities import KNOWN
from nri.engine.spec.seccomp_calls import ALLOWED, BY_CAPABILITY, REFUSED

TABLES = {
    "allowed": [name for names in ALLOWED.values() for name in names.split()],
    "by capability": sorted({name for names in BY_CAPABILITY.values() for name in names.split()}),
    "refused": REFUSED.split(),
}


def test_no_name_stands_in_two_tables() -> None:
    for one, other in combinations(TABLES, 2):
        assert not set(TABLES[one]) & set(TABLES[other]), f"{one} and {other}"


def test_no_name_stands_twice_and_each_row_is_in_order() -> None:
    assert all(len(names) == len(set(names)) for names in TABLES.values())
    for names in (*ALLOWED.values(), *BY_CAPABILITY.values(), REFUSED):
        assert names.split() == sorted(names.split())


def test_names_are_those_of_calls_and_capabilities_those_of_the_kernel() -> None:
    assert all(name.isascii() and name.replace("_", "a").isalnum() for names in TABLES.values() for name in names)
    assert set(BY_CAPABILITY) <= set(KNOWN)


def test_what_has_led_out_of_containers_is_refused_by_name() -> None:
    assert {"keyctl", "add_key", "io_uring_setup", "userfaultfd", "kexec_load"} <= set(TABLES["refused"])
