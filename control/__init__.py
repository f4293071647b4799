"""The decisions: manager, objectives, strategies and predictions, as pure functions of their arguments."""
