"""How do people see traffic? Lines on a terminal."""
