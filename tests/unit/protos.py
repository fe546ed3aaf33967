"""A protobuf schema made by hand, and messages of it."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

_FIELDS = descriptor_pb2.FieldDescriptorProto


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    """Return ``demo.Greeter`` with ``SayHello`` and ``Chat``: what protoc would write of it."""
    file = descriptor_pb2.FileDescriptorProto(name="demo.proto", package="demo", syntax="proto3")
    kinds = {
        "name": (1, _FIELDS.TYPE_STRING, False),
        "count": (2, _FIELDS.TYPE_INT32, False),
        "data": (3, _FIELDS.TYPE_BYTES, False),
        "ratio": (4, _FIELDS.TYPE_DOUBLE, False),
        "tags": (5, _FIELDS.TYPE_STRING, True),
        "numbers": (6, _FIELDS.TYPE_UINT64, True),
        "inner": (7, _FIELDS.TYPE_MESSAGE, True),
        "small": (8, _FIELDS.TYPE_FIXED32, False),
        "delta": (16, _FIELDS.TYPE_SINT64, False),
    }
    message = file.message_type.add(name="Hello")
    for name, (number, kind, repeated) in kinds.items():
        field = message.field.add(name=name, number=number, type=kind)
        field.label = _FIELDS.LABEL_REPEATED if repeated else _FIELDS.LABEL_OPTIONAL
        if kind == _FIELDS.TYPE_MESSAGE:
            field.type_name = ".demo.Hello"
    reply = file.message_type.add(name="Reply")
    reply.field.add(name="text", number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
    service = file.service.add(name="Greeter")
    service.method.add(name="SayHello", input_type=".demo.Hello", output_type=".demo.Reply")
    service.method.add(
        name="Chat",
        input_type=".demo.Hello",
        output_type=".demo.Reply",
        client_streaming=True,
        server_streaming=True,
    )
    return descriptor_pb2.FileDescriptorSet(file=[file])


def classes() -> dict[str, Any]:
    """Return the message classes of ``descriptor_set`` by name."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_set().file:
        pool.Add(file)
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"demo.{name}"))
        for name in ("Hello", "Reply")
    }


CLASSES = classes()
