"""Names of gRPC messages' fields, from a FileDescriptorSet (google/protobuf/descriptor.proto)."""

from pathlib import Path
from typing import Any

from sslsniff.core.errors import SchemaError
from sslsniff.decoders.inner.grpc import split_path
from sslsniff.decoders.messages import Side
from sslsniff.destinations.missing_packages import how_to_install


class ProtoSet:
    """The services in a file that ``protoc --include_imports --descriptor_set_out`` wrote.

    Raises ``SchemaError`` if it cannot be read, or the package protobuf is not installed.
    """

    def __init__(self, path: str) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message
            from google.protobuf.message_factory import GetMessageClass
        except ImportError:
            raise SchemaError(
                "--proto-set needs the package protobuf", how_to_install("protobuf")
            ) from None
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes())
        except OSError as error:
            raise SchemaError(f"cannot read {path} ({error.strerror})", _HOW) from None
        except message.DecodeError:
            files = descriptor_pb2.FileDescriptorSet()
        if not files.file:
            raise SchemaError(f"{path} is no FileDescriptorSet", _HOW)
        self._pool = descriptor_pool.DescriptorPool()
        self._types: dict[tuple[str, str, Side], Any] = {}
        try:
            for file in files.file:
                self._pool.Add(file)
            for file in files.file:
                for service in self._pool.FindFileByName(file.name).services_by_name.values():
                    for method in service.methods:
                        call = (service.full_name, method.name)
                        self._types[*call, Side.CLIENT] = GetMessageClass(method.input_type)
                        self._types[*call, Side.SERVER] = GetMessageClass(method.output_type)
        except (TypeError, KeyError) as error:
            raise SchemaError(f"{path} is not complete: {error}", _HOW) from None
        self._errors = (message.DecodeError, json_format.Error, TypeError, ValueError)
        self._as_dict = json_format.MessageToDict

    def named(self, target: str | None, sender: Side, data: bytes) -> Any:
        """Return a message in protobuf's JSON form, None if its type is not known.

        The form has fields by name, but only a value for types such as ``StringValue``. ``target``
        is the path of its call, which may have a prefix before the service.
        """
        service, method = split_path(target)
        kind = self._types.get(((service or "").rpartition("/")[2], method or "", sender))
        if kind is None:
            return None
        try:
            return self._as_dict(
                kind.FromString(data),
                preserving_proto_field_name=True,
                descriptor_pool=self._pool,
            )
        except self._errors:
            return None


_HOW = "make it with protoc --include_imports --descriptor_set_out=FILE"
