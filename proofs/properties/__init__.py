"""The properties, a file for each part of the arithmetic."""

from . import breakers, levels, plans, scales, tempo, tokens, windows, word32, words  # noqa: F401
