"""The manager's phases, one type each; :mod:`control.phases.transitions` says which follows which."""
