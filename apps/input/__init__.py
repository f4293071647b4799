"""Where items come from, and when: sources, rates, pacing."""
