"""Manifests, chart and unit of the node agent, made from deploy/agent.yaml and deploy/agent/rbac.yaml."""
