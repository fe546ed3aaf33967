"""Whether the functions of stripped BoringSSL are found, and never wrong ones."""
