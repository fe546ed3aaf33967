"""Where traced calls go: text, JSON lines, trace files, tables of counts."""
