"""The audit trail: the containers that there are, the record of every answer, and how to explain it. No I/O.

Reading order: `trail` (the face towards events), `inventory` and `known` (the containers that there are), `provenance`
and `record` (what is kept), `explanation` and `diff` (what it meant), `update_result`, `shadow`, and `reporting` with
its `bounded_log` (the steps of an event told to watchers and the log).
"""
