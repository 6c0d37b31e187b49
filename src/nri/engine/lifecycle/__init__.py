"""The parts of an engine that several of the CRI's calls share: records, events of plugins, processes, ends, machine.

A call itself is a file of :mod:`nri.engine.calls`. Nothing here knows gRPC.

- `inventory`: pods and containers in memory as on disk, and their statuses for clients and plugins.
- `domain`, `hub`: the one place that calls plugins; one adaptation for all domains of an engine.
- `processes`, `cgroups`, `exit_handler`, `resources`: containers while they run, and what becomes of their ends.
- `bus`: events for clients that listen.
- `machinery`, `dry`, `places`, `pod_namespaces`, `undo`: the real parts, those that do nothing, and undos of steps.
"""
