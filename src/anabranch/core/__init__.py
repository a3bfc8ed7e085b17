"""What a program is: dtypes, abstract values, nodes, graphs, and the one door `bind`."""
