"""What can a user ask for? Each option is declared once, in the room that it is about."""
