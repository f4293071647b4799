"""State that outlives a runner: its progress, items that were pushed and are not out, and results that left."""
