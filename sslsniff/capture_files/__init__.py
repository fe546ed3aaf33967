"""How is plaintext written to capture files, and read from them? pcap and pcapng."""
