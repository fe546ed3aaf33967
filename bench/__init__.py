"""Measurements: ``make bench``."""
