"""Messages of plugin registration, generated from `proto/k8s.io` by `tools/generate_cri.py`."""
