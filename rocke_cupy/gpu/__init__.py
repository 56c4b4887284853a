"""Checked calls on CuPy arrays: plans, launches, and what is copied or merged around them."""
