"""Manifests, charts and units of the bundled plugins, made from deploy/plugins.yaml (tools/generate_deploy.py).

Rules: text in, text out; only `tools/generate_deploy.py` writes. Reasons of the table become comments, so that a person
who reads a manifest sees why it asks for what it asks. Next: `table`, then `kustomize`, `chart` and `unit`.
"""
