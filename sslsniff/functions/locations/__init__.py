"""Where is a value at an instruction? DWARF's location expressions, as steps that fetch."""
