"""Generated messages; see `proto/koordinator.sh`. Never edited: `tools/generate_cri.py`."""
