"""The engine beside containerd: whole lives of pods with one container, driven by one client over the CRI.

`python -m bench engine`. One job for each module: `sides` starts both and says what they use, `cycle` is the nine calls,
`waterfall` says where the engine's time goes, `tables` makes the text, `run` is the command.
"""
