"""Choose by expected cost: a belief about the stream, what plans would cost under it, and a price for a late item."""
