"""Captures a command without rights: by a library that is loaded into it (``preload/``)."""
