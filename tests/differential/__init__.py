"""Random cases, answered by the Go reference and by us, side by side: any difference is a finding.

One case is what a file of recorded outcomes holds a line of: a request, and what each plugin answers. Reading order:
`vocabulary` (the values), `generate` and `peace` (cases), `mix` (cases from recorded ones), `oracle` (the reference, a
process), `compare` (what counts as a difference), `shrink` (make it small), `__main__` (without end:
``python -m tests.differential --forever``). The whole adaptation with plugins in Go attached, beside the reference's:
`requests` and `tame` (what is asked), `attached`, `expected`, `plugins` (``python -m tests.differential.plugins``).
"""
