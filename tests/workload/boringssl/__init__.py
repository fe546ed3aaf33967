"""Programs with BoringSSL or AWS-LC linked in, of many releases, built in many ways."""
