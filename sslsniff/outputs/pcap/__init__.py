"""Captures for Wireshark: --pcap."""
