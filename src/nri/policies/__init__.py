"""Decisions for a node, pure: contexts and rules in, changes or a refusal out. No I/O, no clock."""
