"""``sslsniff -- COMMAND`` without rights: by a library that is preloaded into the command."""
