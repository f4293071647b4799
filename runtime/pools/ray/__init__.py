"""Workers as Ray actors. Only this package imports Ray."""
