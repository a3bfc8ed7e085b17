"""See a graph: its values, its gradients, and how they came about."""
