"""Values of C's types."""

from sslsniff.functions.values.fetch_program import ValueFormats
from sslsniff.functions.values.structure_values import ALL_KINDS

C_FORMATS = ValueFormats(ALL_KINDS, lambda described: None)
