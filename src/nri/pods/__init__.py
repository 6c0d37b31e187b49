"""Run the pods of Kubernetes manifests on any CRI socket: requests, volumes, life cycle, exec and attach.

This package does not print. Errors name file, line and key, or the runtime's reason.
"""
