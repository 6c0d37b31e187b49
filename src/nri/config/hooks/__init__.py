"""hooks.d directories, as podman and CRI-O read them: which OCI hooks a container gets."""
