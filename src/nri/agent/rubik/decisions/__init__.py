"""openEuler rubik's services as pure decisions: samples in, values out, no clock and no I/O.

`settings` reads its configuration file, `pods` has pods and who is offline; one module for each service: `preemption`,
`dyn_cache`, `io_limit`, `io_cost`, `dyn_memory`, `quota_burst`, `quota_turbo`, `evict` (psi, cpuevict and
memoryevict) and `cpi`. The differences from rubik are in docs/deviations.md. Next: `settings`.
"""
