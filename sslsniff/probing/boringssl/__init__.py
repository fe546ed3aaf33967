"""Which functions of a stripped program are BoringSSL's or AWS-LC's? What their errors prove."""
