"""HTTP/2 (RFC 9113), decoded passively, from the start of a connection or from its middle."""

from sslsniff.decoders.http2.http2_decoder import Http2Decoder

__all__ = ["Http2Decoder"]
