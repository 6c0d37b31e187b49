"""Classes of traffic by the real tc and iptables, on the guest's kernel, in a network of their own."""

from __future__ import annotations

from tests.unit.agent.koordinator.test_tc_programs import (
    test_in_a_network_of_its_own_real_programs_make_classes_and_take_them_away,
)

__all__ = ["test_in_a_network_of_its_own_real_programs_make_classes_and_take_them_away"]
