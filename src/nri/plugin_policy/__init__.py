"""The operator's rules for each plugin, read from one file and resolved per event.

Reading order: `file` (the syntax), `policy` (the resolved rules), `allow` and `identity` (two of the rules),
`event_policy` (the form for the hot path).
"""
