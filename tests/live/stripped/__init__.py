"""Programs with a TLS library linked in and without symbols, as they are shipped or built here."""
