"""Classes of traffic by the real tc and iptables, on the guest's kernel, in a separate network namespace."""

from __future__ import annotations

from tests.unit.agent.koordinator.test_tc_programs import (
    test_real_programs_create_and_remove_classes_in_a_network_namespace,
)

__all__ = ["test_real_programs_create_and_remove_classes_in_a_network_namespace"]
