"""Kubernetes formats: quantities, resources of pods, manifests as NRI messages, and a client of the API server."""
