"""Verbs that ask any runtime over its CRI socket: `nri ps`, `nri pods` and `nri logs`."""
