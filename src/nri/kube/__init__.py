"""Kubernetes in the words of NRI: quantities, and manifests as the messages that a runtime would send to its plugins.

Pure but for reading files. `quantity` has the numbers and `kubelet` what the kubelet makes of them; `document` asks a
manifest's tree for values, `manifest` and `container` make messages of it, `image_config` reads the image's side.
"""
