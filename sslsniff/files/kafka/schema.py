"""The types of messages, as ``messages.proto`` describes them."""

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

_COMPILED = Path(__file__).with_name("messages.binpb")
_PACKAGE = "sslsniff.v1"


def _types() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(_COMPILED.read_bytes()).file:
        pool.Add(file)
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("Plaintext", "Exchange")
    }


Plaintext: Any = _types()["Plaintext"]
Exchange: Any = _types()["Exchange"]
