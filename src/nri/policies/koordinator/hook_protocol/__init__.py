"""Koordinator's protocol between a runtime proxy and hook servers, as far as it is decisions: merges, state, turns."""
