"""Generated CRI messages; see `proto/k8s.io`. Never edited: `tools/generate_cri.py`."""
