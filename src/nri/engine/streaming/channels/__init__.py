"""Kubernetes's protocols over SPDY or a WebSocket: channels of a command, connections to ports. Pure."""
