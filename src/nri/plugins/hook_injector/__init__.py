"""Add OCI hooks to containers, from files in hooks.d directories."""
