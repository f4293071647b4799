"""Manager, objectives, strategies and predictions: they decide on compositions and bundle sizes, without I/O."""
