"""Functions that NumPy lacks, on float64 arrays: the references of erf, lgamma and their kin.

Each says how far it may be from the true value. The polynomials stand in `tables`, as data.
"""
