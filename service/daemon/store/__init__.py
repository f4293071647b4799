"""State that survives a restart: tables in one file, readable by their owner alone."""
