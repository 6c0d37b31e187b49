"""The CRI's calls in groups, thin: a request is checked, one of the engine's parts does it, the answer is a message.

Rules: no gRPC here; a method has the call's name in small letters, gets the request and the `call.Call`, and raises the
engine's errors as they are, for the server has their table. A call without a method is Unimplemented: checkpoints.
Modules: `images`, `runtime_info`, `pods`, `containers`, `execution`, `stats`, `events`, `metrics`; beside them `call`
and `readings` (what is used). Next: `images`.
"""
