"""Kubernetes in the words of NRI: quantities, and manifests as the messages that a runtime would send to its plugins.

Pure but for reading files. `named` finds a container by a person's word; `quantity` has the numbers, `pod_resources`
the sums over a pod, and `kubelet` what the kubelet makes of them; `document` asks a manifest's tree for values, and
`manifest` makes messages of it and of an image's configuration.
"""
