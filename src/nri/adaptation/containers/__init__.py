"""The live state of the runtime's containers: which exist, their resources, the latest answer of each field. No I/O.

Reading order: `inventory` (existing containers and containers that are being created), `update_result` (the outcome of
an update, field by field), `answer_order` (a plugin's later answer overrides its earlier answer), `restoration` (the
resources of a container after an update is undone). `nri.adaptation.audit` keeps the history of the same containers.
"""
