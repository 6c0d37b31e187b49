"""An admission webhook that annotates pods with their resources. It is not an NRI plugin: an API server calls it."""
