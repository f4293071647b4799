"""What the two face apps share: finding faces, knowing them, marking them. After SPBench and Vogel et al."""
