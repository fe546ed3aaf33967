"""What is the screen made of? Lists, texts, the line of a filter, dialogs."""
