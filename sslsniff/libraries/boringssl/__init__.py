"""BoringSSL and AWS-LC: their rows, and what proves their functions without symbols."""
