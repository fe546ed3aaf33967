"""The real packets of watched connections, with their secrets: --packets."""
