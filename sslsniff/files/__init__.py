"""How is plaintext recorded, and read again? In capture files, pcap and pcapng, and in Kafka."""
