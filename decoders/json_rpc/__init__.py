"""Which calls do two programs make of each other? By JSON-RPC 2.0, which MCP is made of."""
