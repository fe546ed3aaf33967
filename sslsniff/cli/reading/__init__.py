"""Commands that decode capture files, in one process or in several."""
