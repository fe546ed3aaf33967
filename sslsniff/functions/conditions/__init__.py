"""Conditions on arguments, such as ``i > 3``: their syntax, and how a probe decides them."""
