"""`balloons`: pin containers to sets of CPUs that grow and shrink with the containers' requests."""
