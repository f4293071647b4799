"""The manager's phases, one type each; :mod:`control.phases.transitions` defines their order."""
