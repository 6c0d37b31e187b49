"""Who changed what: the containers that there are, the record of every answer, and how to explain it. No I/O."""
