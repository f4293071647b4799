"""Batch controllers compared in virtual time (docs/decisions/0023-controllers.md)."""
