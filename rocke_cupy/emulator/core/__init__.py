"""The virtual compute unit: written in C, with what Python needs to use it."""
