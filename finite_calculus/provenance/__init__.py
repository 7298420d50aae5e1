"""Where a record came from: digests, files written whole or not at all, and the code that made it.

Standard library only, so that every part of the package may use it.
"""
