"""The container runtime interface (CRI): its messages, and their conversion to and from NRI messages.

Modules that call a runtime or serve the CRI require the extra `cri` (grpcio); the messages in `pb` do not. Only the
package `convert` uses both CRI messages and NRI messages.
"""
