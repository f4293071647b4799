"""Who answers what is asked of a run, before, during and after it."""
