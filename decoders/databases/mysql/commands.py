"""The commands of MySQL's protocol that are no text, as shown."""

PROCESS_INFO, FETCH = 0x0A, 0x1C

NAMES = {
    0x02: "USE",
    0x04: "FIELD LIST",
    0x07: "REFRESH",
    0x08: "SHUTDOWN",
    0x09: "STATISTICS",
    PROCESS_INFO: "PROCESS INFO",
    0x0C: "KILL",
    0x0D: "DEBUG",
    0x0E: "PING",
    0x12: "BINLOG DUMP",
    0x15: "REGISTER REPLICA",
    0x1A: "RESET STATEMENT",
    0x1B: "SET OPTION",
    FETCH: "FETCH",
    0x1E: "BINLOG DUMP",
    0x1F: "RESET CONNECTION",
}

ROWS = frozenset((0x04, 0x12, FETCH, 0x1E))
"""Commands that are answered by rows without a count of columns before them."""
