"""Which functions of a stripped program are OpenSSL's? Its errors name them."""
