"""balloons: sets of CPUs that grow and shrink with the requests of the containers in them.

Read `options` (types of balloons), `tree` (which CPUs a balloon takes or gives back), `balloon`, `policy`.
"""
