"""What passes inside HTTP: WebSocket, gRPC, server-sent events."""
