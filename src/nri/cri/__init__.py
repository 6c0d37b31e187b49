"""The container runtime interface (CRI): its messages, and later their conversion to and from NRI's.

Rules: the only layer that knows both vocabularies; needs the extra `cri` (grpcio) only where
something is called, not for the messages. Next: `nri.engine` and `nri.proxy` serve and call it.
"""
