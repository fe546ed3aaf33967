"""Which calls does a program make? sslsniff trace, --calls, symbols: from debug info to output."""
