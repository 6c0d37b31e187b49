"""Koordinator's QoS rules for one node, decided and not done: what each pod, container, kube-QoS folder gets, and why.

Rules of this package: pure. Contexts and rules come in as values, changes go out as values, and nothing in here knows
the transport, the kernel or the time. Knobs bear neutral names (`cpu.shares`, `cpuset.cpus`), which the machine's side
turns into files. Where the original (koordlet) surprises its users, one attribute of `Quirks` says so.
Next: `nri.policies.contexts`, then `profile`, the table of hooks.
"""
