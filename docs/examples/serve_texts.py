"""Serves a SavedModel that reads raw text, over the REST interface of TensorFlow Serving. It needs no ptmbench.

ptmbench export CHECKPOINT --format saved_model --texts 1 --out exports/sst2
python docs/examples/serve_texts.py exports/sst2/saved_model 8501
curl -d '{"instances": ["a film of rare warmth"]}' http://127.0.0.1:8501/v1/models/model:predict

A request has "instances", a list with a text each or an object of named texts each, or "inputs", the same by column,
and perhaps "signature_name".
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its operators

MODEL = "/v1/models/model"


def predict(model, request):
    """The answer to a request to predict, in the layout of the request."""
    signature = model.signatures[request.get("signature_name", "serving_default")]
    _, specs = signature.structured_input_signature
    by_row = "instances" in request
    given = request["instances" if by_row else "inputs"]
    if by_row and isinstance(given[0], dict):
        columns = {name: [one[name] for one in given] for name in given[0]}
    else:
        columns = given if isinstance(given, dict) else {next(iter(specs)): given}
    found = signature(**{name: tf.constant(column, specs[name].dtype) for name, column in columns.items()})
    found = {name: plain(array.numpy()) for name, array in found.items()}
    if not by_row:
        return {"outputs": found if len(found) > 1 else next(iter(found.values()))}
    rows = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    return {"predictions": rows if len(found) > 1 else next(iter(found.values()))}


def plain(array):
    """``array`` as JSON has it: strings for bytes, lists for arrays."""
    return np.char.decode(array.astype(np.bytes_), "utf-8").tolist() if array.dtype == object else array.tolist()


def handler(model):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status = [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]
            known = self.path == MODEL
            self.reply(200, {"model_version_status": status}) if known else self.reply(404, {"error": "Not found"})

        def do_POST(self):
            if self.path != f"{MODEL}:predict":
                return self.reply(404, {"error": f"There is no {self.path}. Send requests to {MODEL}:predict."})
            try:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                return self.reply(200, predict(model, request))
            except Exception as error:
                return self.reply(400, {"error": f"{type(error).__name__}: {error}"})

        def reply(self, status, content):
            body = json.dumps(content, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    return Handler


if __name__ == "__main__":
    folder, port = sys.argv[1:3]
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), handler(tf.saved_model.load(folder)))
    print(f"http://127.0.0.1:{server.server_address[1]}{MODEL}:predict", flush=True)
    server.serve_forever()
