"""What gfx950 asks of code beyond each instruction by itself: the rules, each stated once.

The linter applies them to all ways through a code object, execution to the one that it takes.
"""
