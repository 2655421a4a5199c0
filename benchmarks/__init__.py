"""Measurements of what Moorage costs, each beside the bare thing in the same run.

``python -m benchmarks`` (or ``make bench``) prints the table. Nothing here is asserted: a machine
may be busy, and the reader judges.
"""
