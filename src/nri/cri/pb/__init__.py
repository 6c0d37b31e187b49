"""Messages of the CRI, generated from `proto/k8s.io` by `tools/generate_cri.py`. Do not edit them."""
