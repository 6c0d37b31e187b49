"""Modules of the executor: waiting writes, core scheduling, lists of CPUs, updates through the CRI."""
