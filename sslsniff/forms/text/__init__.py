"""How do people read an exchange? Lines, bodies, sizes, times, within a terminal's width."""
