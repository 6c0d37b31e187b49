"""The policy balloons: sets of CPUs that grow and shrink with the requests of their containers."""
