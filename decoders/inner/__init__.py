"""Protocols inside HTTP: WebSocket, gRPC, server-sent events."""
