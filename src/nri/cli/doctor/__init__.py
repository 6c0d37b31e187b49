"""The judgement of `nri doctor`: everything that keeps plugins from working here, found in one go, with the next step.

Rules: a check reads, never changes, and takes the root folder to look under, so that a copied /etc or a container's
view of the host (`--root /host`) can be examined; it never raises for what it finds. `nri.config.runtimes` reads the
runtimes' files; `words` says what is wrong in them, `runtimes` compares them, `sockets`, `plugins` and `python` look at
the machine, `failures` reads what plugins have left behind, `examination` has the order, and `findings` the vocabulary.
"""
