"""HTTP/2 (RFC 9113) as a passive onlooker sees it, from its start or from its middle."""
