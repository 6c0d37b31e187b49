"""The container runtime interface (CRI): its messages, and their conversion to and from NRI's.

Modules that call a runtime or serve the CRI require the extra `cri` (grpcio); the messages in `pb` do not. `convert` is
the only package that knows both the CRI's messages and NRI's.
"""
