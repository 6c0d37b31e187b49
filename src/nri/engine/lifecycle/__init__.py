"""Objects that several of the CRI's calls share: records, events, processes, and the tools of the machine."""
