"""What a capture writes for another process of sslsniff, such as a screen."""
