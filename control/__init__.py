"""What is decided, as functions of arguments: manager, objectives, strategies, forecasts. Pure."""
