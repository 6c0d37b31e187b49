"""Generated messages; see `proto/nri/trace`. Never edited: `tools/generate_cri.py`."""
