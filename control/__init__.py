"""The decisions: manager, objectives, strategies and forecasts, as pure functions of their arguments."""
