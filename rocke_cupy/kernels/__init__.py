"""From a spec to a built kernel: constants, source text, geometry, compilation."""
