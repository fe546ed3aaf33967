"""Who parses the files of traced programs? Workers without rights: their answers are checked."""
