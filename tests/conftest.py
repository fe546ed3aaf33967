"""What all tests share."""

from hypothesis import settings

# A machine under load is slow, and nothing here tests its speed.
settings.register_profile("sslsniff", deadline=None)
settings.load_profile("sslsniff")
