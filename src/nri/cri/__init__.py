"""The container runtime interface (CRI): its messages, and their conversion to and from NRI's.

Rules: pure; needs the extra `cri` (grpcio) only where something is called, not for the messages. `pb` has the
messages, `convert` is the only place that knows both them and NRI's.
"""
