"""Three ways to build, three small front ends behind `core.bind`: eager, traced and by hand."""
