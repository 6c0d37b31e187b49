"""The verbs of `nri pod`."""
