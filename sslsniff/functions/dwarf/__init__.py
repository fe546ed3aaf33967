"""Debug info (DWARF 4 and 5): functions, their copies in the code, variables, types, lines."""
