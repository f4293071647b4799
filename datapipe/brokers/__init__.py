"""Message brokers: a folder each, with its calls, its source and its sink."""
