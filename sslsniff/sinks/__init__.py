"""Where do results go? Text, JSON lines, HTTP Archives, capture files; and filters before them."""
