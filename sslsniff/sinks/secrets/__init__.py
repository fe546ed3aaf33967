"""How do other programs get the secrets that decrypt packets? Key logs, and packets with them."""
