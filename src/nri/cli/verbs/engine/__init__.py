"""Verbs of the engine: `nri engine`, and `nri config` for its settings."""
