"""The containers of the runtime as live state: which exist, what they have, and which of two answers counts. No I/O.

Reading order: `inventory` (existing containers and those being created), `update_result` (what became of an update,
field by field), `answer_order` (a plugin's later answer overrides its earlier one), `restoration` (what a container
gets back when an update is undone). `nri.adaptation.audit` keeps the history of the same containers.
"""
