"""The rules of the operator for each plugin, read from one file and worked out per event. Pure but for that reading.

Reading order: `file` (the syntax), `policy` (the resolved rules), `allow` and `bearer` (two of the rules),
`event_policy` (the row of answers for the hot path).
"""
