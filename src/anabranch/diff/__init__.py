"""Graph to graph, or value to value: one walk backward, one forward, both over any values."""
