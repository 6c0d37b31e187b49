"""A CRI container engine over an OCI runtime, with NRI built in (extra ``engine``).

Pods and containers. It owns state on disk, processes and mounts, and leaves the rest to real parts: an OCI
runtime (runc or crun), conmon, CNI plugins, skopeo and umoci. Nothing of it is loaded by ``import nri``.
"""
