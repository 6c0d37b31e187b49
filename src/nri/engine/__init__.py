"""A CRI container engine over an OCI runtime, with NRI built in (extra ``engine``).

It manages pods and containers: state on disk, processes and mounts. Other programs do the rest: an OCI runtime (runc or
crun), conmon, CNI plugins, skopeo and umoci. ``import nri`` loads none of it.
"""
