"""HTTP/2 (RFC 9113) as a passive onlooker sees it, from its start or from its middle."""

from sslsniff.decoders.http2.http2_decoder import Http2Decoder

__all__ = ["Http2Decoder"]
