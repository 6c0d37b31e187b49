"""A real Kubernetes over a runtime of ours or others': built once, started privately, gone afterwards.

Rules: the runtime under test is given by its CRI socket and knows nothing of these tests; all that a node leaves on the
machine lies in the runtime's run directory or in cgroups of that directory's name (tools/runtimes/leftovers.py).

Reading order: `build` (where kubelet comes from), `runtimes` (what it drives), `kubelet` (a running one), `client` and
`websocket` (its HTTP interface), `node` (the two together, with pods on them), `pods` (manifests), then the tests.
"""
