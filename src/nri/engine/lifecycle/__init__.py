"""The parts of the engine that several of the CRI's calls share: records, events, processes and the machinery."""
