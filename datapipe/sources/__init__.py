"""Sources of items, input rates and pacing."""
