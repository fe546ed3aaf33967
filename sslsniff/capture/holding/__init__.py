"""How does a thread wait until the library that it maps is probed? The holder stops it."""
