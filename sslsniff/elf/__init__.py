"""What is in an executable file? Segments, symbols, unwind tables, debug files, notes."""
