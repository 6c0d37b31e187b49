"""Tests that run in a guest with cgroup v2 alone and two NUMA nodes (tools/guest), which is what nodes have.

`python -m tests.guest` runs a short part of what is meant for it, `--rest` the rest; arguments of pytest go through.
"""
