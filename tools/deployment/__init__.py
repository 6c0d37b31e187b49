"""Manifests, charts and units of the bundled plugins, made from deploy/plugins.yaml (tools/generate_deploy.py).

Functions return text; only `tools/generate_deploy.py` writes. Reasons of the table become comments of the manifests.
"""
