"""How many connections are captured, where not all can be."""
