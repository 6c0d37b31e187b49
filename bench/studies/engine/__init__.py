"""The engine compared with containerd: complete lives of pods with one container, driven by one client over the CRI.

`python -m bench engine`. `cycle` is the nine calls, `sides` starts both and says what they use, `waterfall` says
where the engine's time goes, `tables` makes the text, `run` is the command.
"""
