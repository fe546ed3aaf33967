"""Which packets pass on this machine? A socket that receives them all, and whose ports they use."""
