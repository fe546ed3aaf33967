"""What proves in a program without symbols which function is which? The errors that it raises."""
