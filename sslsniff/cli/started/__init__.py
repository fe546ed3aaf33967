"""Starts the command after ``--`` as its shell would, and waits for its end."""
