"""Values of C's types."""

from sslsniff.probing.functions.values.fetch_program import ValueFormats
from sslsniff.probing.functions.values.structure_values import ALL_KINDS

C_FORMATS = ValueFormats(ALL_KINDS, lambda described: None)
