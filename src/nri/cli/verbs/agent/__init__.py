"""Verbs of the node agent: `nri agent`, and `nri proxy`, one of its transports by itself."""
