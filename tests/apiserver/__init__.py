"""Manifests and charts below deploy/ on a real kube-apiserver, without nodes."""
