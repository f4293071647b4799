"""Memory that a runner and the workers of its host share: a large frame is written once and passed by reference."""
