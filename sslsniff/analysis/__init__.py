"""Where do probes belong in an untrusted file? Workers without rights say it; it is cached."""
