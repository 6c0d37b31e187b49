"""The container runtime interface (CRI): its messages.

Rules: needs the extra `cri` (grpcio) only where something is called, not for the messages.
"""
