"""Where decoded traffic goes: each sink shows or stores it in one form."""
