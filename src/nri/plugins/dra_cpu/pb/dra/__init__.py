"""Messages of dynamic resource allocation, generated from `proto/k8s.io` by `tools/generate_cri.py`."""
