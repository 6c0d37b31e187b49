"""The live state of the runtime's containers: which exist, their resources, and which of two answers counts. No I/O.

Reading order: `inventory` (existing containers and those being created), `update_result` (the outcome of an update,
field by field), `answer_order` (a plugin's later answer overrides its earlier one), `restoration` (the resources of a
container after an update is undone). `nri.adaptation.audit` keeps the history of the same containers.
"""
