"""What `nri doctor` looks at. Every check gives findings: what, where (file and key), and what to do next.

Rules: a check reads, never changes, and takes the root folder to look under, so that a copied /etc or a container's
view of the host (`--root /host`) can be examined; it never raises for what it finds. `findings` has the vocabulary,
`config_files` reads the runtimes' files, `containerd`, `crio` and `isulad` know their keys, `runtimes` compares them,
`sockets`, `plugins` and `python` look at the machine.
"""
