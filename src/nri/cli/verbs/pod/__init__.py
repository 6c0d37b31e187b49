"""`nri pod` and its verbs, a file for each, or for two that differ little. Next: `nri.cli.verbs.pod.pod`."""
