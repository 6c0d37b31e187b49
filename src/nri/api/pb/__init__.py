"""Generated messages; import them from `nri.api.messages`. Regenerate with `python tools/generate_api.py`."""
