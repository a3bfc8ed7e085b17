"""Ways to run a graph. `base` says what a backend is; each backend is a module of its own."""
