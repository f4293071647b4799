"""Batch controllers compared in virtual time (docs/decisions/0023-batch-controllers.md)."""
