"""Where containers run: which CPUs and memory nodes each gets, decided over a machine that was read, and not done.

Rules of this package: pure. A machine and configuration come in as values, containers one after the other, and out
come the pins of each container that changes; nothing in here reads, waits or asks the time. Where the originals
(nri-plugins' topology-aware and balloons) surprise their users, one attribute of `choices.Choices` says so. The modules
of this folder serve both policies, and neither policy imports the other. Next: `masks`, `machine`, `allocator` and
`zones`; then `topology_aware`, `balloons`.
"""
