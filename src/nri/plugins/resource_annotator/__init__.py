"""An admission webhook that annotates pods with their resources: `webhook` serves, `admission` answers a review.

It is not an NRI plugin and has no entry point: an API server calls it, and `nri resource-annotator` runs it.
"""
