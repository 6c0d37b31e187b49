"""Run the pods of Kubernetes manifests on any CRI socket: requests, volumes, life cycle, exec and attach.

Nothing here prints. Errors name file, line and key, or the runtime's reason.
"""
