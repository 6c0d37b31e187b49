"""Plugins and runtimes that mean harm, and what a node with five healthy plugins and four threads of events does.

    python -m tests.torture                 every attack for some seconds, as a table
    python -m tests.torture --write         the same, and the numbers go into tests/torture/RESULTS.md
    python -m tests.torture --soak 60       an hour of joins, leaves and attacks in random order
    python -m tests.torture --only late     one attack

Three processes take part, so that what each costs is its own: the node (`node`), the healthy plugins (`healthy`) and
the hostile one (`attacker`). `course` runs one attack, `judge` checks what must hold, `attacks` has the attacks, a
function and a row each. For the plugin's side, `plugin_course` puts a real plugin program before a hostile runtime
(`runtimes`). For the engine, `engine_course` runs an engine with 20 polite pods and visits them while hostile
images, containers and calls attack it (`engine_attacks`).
"""
