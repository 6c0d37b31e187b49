"""The work behind `nri agent` and `nri proxy`: their options, their processes, questions to an agent that runs."""
