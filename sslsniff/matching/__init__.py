"""Where in a file does a row of a library's plan belong? Functions, places, offsets in objects."""
