"""The contract: what a call must satisfy, stated once for NumPy and CuPy arrays alike.

`call` has the order in which the rules are applied; the other files state them.
"""
