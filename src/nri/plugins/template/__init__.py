"""The plugin to copy: it logs each event and changes nothing."""
