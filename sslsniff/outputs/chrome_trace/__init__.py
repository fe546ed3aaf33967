"""Exchanges with their calls as slices on a time line: --chrome-trace."""
