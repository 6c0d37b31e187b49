"""Rules, as they are parsed from NodeSLO, NodeResourceTopology and the node; pure, one file for each source.

A source that cannot be read raises ValueError, and `nri.policies.last_good` keeps the last good rule.
"""
