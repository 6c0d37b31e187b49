"""Pods by hand on any CRI socket: manifests made into requests, pods run and removed, exec and attach over streams.

Rules: nothing here prints; errors name file, line and key, or the runtime's word. Next: `nri.cli.support.pod.requests`.
"""
