"""The secrets of connections, in a file for Wireshark: --keylog."""
