"""Manager and strategies (pure), runner, control plane, command line, state."""
