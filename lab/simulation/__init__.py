"""A whole run in virtual time: scenario, source, costs, trace."""
