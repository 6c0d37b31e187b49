"""Manifests, chart and unit of the node agent, out of deploy/agent.yaml and deploy/agent/rbac.yaml.

Reading order: `table`, `kustomize`, `chart`, `unit`.
"""
