"""Workers as Ray actors. Only here is Ray imported."""
