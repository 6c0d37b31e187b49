"""balloons: sets of CPUs that grow and shrink with the requests of the containers in them.

Read `options` and `types`, `tree` (which CPUs a balloon takes or gives back), `balloon`, `balloon_set`, `pins` and
`policy`; then `restart` and `view`.
"""
