"""Protobuf's own text format and TensorFlow Serving's own schema, for the tests of internal/tfserving/modelconfig.

"schema" prints every field that a model config can have. "judge" reads a JSON list of texts and prints what Python's
google.protobuf.text_format makes of each: the message in its binary form, or why it is refused.
"""

import base64
import json
import sys

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

KINDS = {1: "double", 3: "int64", 5: "int32", 9: "string", 11: "message", 13: "uint32", 14: "enum"}


def fields(message, seen):
    if message.full_name in seen or message.full_name.startswith("google."):
        return
    seen.add(message.full_name)
    for f in message.fields:
        of = f.message_type or f.enum_type
        # The oneof of an optional field is protobuf's own.
        oneof = f.containing_oneof if f.containing_oneof and not f.containing_oneof.name.startswith("_") else None
        yield " ".join([
            f.full_name, str(f.number), "repeated" if f.is_repeated else "singular", KINDS[f.type],
            of.full_name if of else "-", oneof.name if oneof else "-",
        ])
        if f.message_type:
            yield from fields(f.message_type, seen)
        if f.enum_type:
            for value in f.enum_type.values:
                yield "%s.%s %d" % (f.enum_type.full_name, value.name, value.number)


def verdict(text):
    message = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as e:
        return {"error": str(e)}
    return {"message": base64.b64encode(message.SerializeToString(deterministic=True)).decode()}


if sys.argv[1] == "schema":
    print("\n".join(sorted(set(fields(model_server_config_pb2.ModelServerConfig.DESCRIPTOR, set())))))
else:
    json.dump([verdict(text) for text in json.load(sys.stdin)], sys.stdout)
