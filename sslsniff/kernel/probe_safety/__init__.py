"""Checks that a uprobe at an instruction does not change what the program computes."""
