"""Where does a library hand over its secrets? Functions that write key logs, wanted or not."""
