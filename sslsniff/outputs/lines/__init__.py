"""Lines for people, as exchanges end: --frames, -v and -vv show more."""
