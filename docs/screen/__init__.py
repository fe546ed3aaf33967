"""The pictures of docs/screen.md, of real runs."""
