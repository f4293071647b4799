"""Policies over changing loads in virtual time: how many items are in time, and what that costs."""
