"""Choose by expected cost: a model of the stream, the costs of plans under its futures, and a price for late items."""
