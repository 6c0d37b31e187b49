"""`balloons`: containers in sets of CPUs that grow and shrink with what they request."""
