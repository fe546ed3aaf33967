"""Plans the places of a file by its worker."""

from functools import lru_cache, partial

from sslsniff.core.errors import SslsniffError
from sslsniff.functions.places.plans import TracePlan, WantedPlaces
from sslsniff.functions.values.fetch_program import RuntimeTypeName
from sslsniff.functions.workers import requests
from sslsniff.functions.workers.code_messages import parse_type_name
from sslsniff.functions.workers.file_reader import FileReader
from sslsniff.functions.workers.message_channel import MOST_MESSAGE_BYTES
from sslsniff.functions.workers.plan_messages import PlannedFile, parse_plans

_MOST_TYPES = 65_536


def read_plans(
    reader: FileReader, wanted: WantedPlaces, *, serves: bool = False
) -> list[TracePlan]:
    """Return a plan for each kind of place that is wanted; hits have the tasks of the program.

    ``serves``: the only plan is for functions that serve exchanges. Go's interfaces are looked up
    in the file when they are shown: until then ``reader`` must be open. Raises ``SslsniffError``.
    """
    file = PlannedFile(
        reader.path,
        [(part.offset, part.size) for part in reader.code],
        reader.status.st_size,
        wanted.options.limits,
        FileTypes(reader),
    )
    do = requests.SERVED if serves else requests.PLACES
    condition = wanted.options.condition
    return reader.ask(
        {"do": do} | requests.wanted_message(wanted),
        partial(parse_plans, file=file),
        condition=condition and condition.text,
        most_bytes=MOST_MESSAGE_BYTES,
    )


class FileTypes:
    """The names of the types of a Go program, which its worker looks up (``RuntimeTypeNames``)."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._name_at = lru_cache(_MOST_TYPES)(self._read)

    def at(self, address: int, /) -> RuntimeTypeName | None:
        """Return the name of the type at a linked address; None: there is none, or it is closed."""
        return self._name_at(address)

    def _read(self, address: int) -> RuntimeTypeName | None:
        try:
            return self._reader.ask({"do": requests.TYPE_NAME, "address": address}, parse_type_name)
        except SslsniffError:
            return None
