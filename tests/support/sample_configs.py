"""Configurations with which plugins were asked, theirs and ours alike (tests/data/plugins)."""

from __future__ import annotations

#: Plugin -> its configuration, for those that have one.
CONFIGS = {
    "memory-qos": """\
classes:
- {name: bronze, swaplimitratio: 0.5}
- {name: silver, swaplimitratio: 0.2}
- {name: tenth, swaplimitratio: 0.1}
- {name: third, swaplimitratio: 0.3333}
- {name: all, swaplimitratio: 1.0}
- {name: none}
unifiedannotations: [memory.swap.max, memory.high]
""",
    "memory-policy": """\
injectMpolset: true
classes:
- name: interleave-all
  policy: {mode: MPOL_INTERLEAVE, nodes: allowed-mems}
- name: interleave-cpu-packages
  policy: {mode: MPOL_INTERLEAVE, nodes: cpu-packages}
- name: interleave-cpu-nodes
  policy: {mode: MPOL_INTERLEAVE, nodes: cpu-nodes}
- name: interleave-near
  policy: {mode: MPOL_INTERLEAVE, nodes: 'max-dist:19'}
- name: bind-0
  policy: {mode: MPOL_BIND, nodes: '0', flags: [MPOL_F_STATIC_NODES]}
""",
    "memtierd": """\
classes:
- {name: swap, allowswap: true}
- {name: noswap, allowswap: false}
- {name: plain, memtierdconfig: "x: $CGROUP2_ABS_PATH"}
""",
}
