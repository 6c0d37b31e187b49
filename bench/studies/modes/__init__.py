"""The agent's modes side by side: none, NRI, CRI proxy, standalone, with the same pods on the same real node.

`python -m bench modes`. `pods` are the pods and the values that must be in force, `watcher` is a program that prints
each value of their cgroups as it is written, `node` has the rules in a real API server, `agents` starts the agent in a
mode,
`segment` lives one batch of pods, `tables` and `picture` make the page, `run` is the command.
"""
