"""Studies: measurements of parts other than the processing of an event, each for one page or decision."""
