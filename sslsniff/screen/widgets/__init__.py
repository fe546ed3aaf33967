"""What is the screen made of? Lists, texts, lines to type in."""
