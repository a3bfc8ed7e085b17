"""Graph to graph: each pass builds a new graph and says which new node stands for which."""
