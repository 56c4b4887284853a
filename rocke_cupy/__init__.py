"""Flash attention on CuPy arrays for the AMD Instinct MI355X (gfx950).

Importing this package needs no GPU, no CuPy and no compiler: CuPy is looked up only when the
caller's arrays are CuPy's.
"""
