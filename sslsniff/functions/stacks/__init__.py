"""How are stacks unwound and named? By what the files of a process say."""
