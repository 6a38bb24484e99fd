"""The smallest extender and webhook that can stand where the daemon does: takes the first node offered, grants one
made-up device. It shows that the chart's configuration, certificates and rights fit together, daemon or not."""

import base64
import json
import os
import pathlib
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from kit.api import Api, Refused  # noqa: E402

PREFIX = "nvidia.com/"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api
    scheduler: str

    def log_message(self, *args):
        print(*args, file=sys.stderr, flush=True)

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = {"/webhook": self.admit, "/filter": self.filter, "/bind": self.bind}[self.path.partition("?")[0]]
        self.answer(verb(body))

    def answer(self, body: dict):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def admit(self, review: dict) -> dict:
        pod = review["request"]["object"]
        wants = any(k.startswith(PREFIX) for c in pod["spec"]["containers"]
                    for k in c.get("resources", {}).get("limits", {}))
        reply = {"uid": review["request"]["uid"], "allowed": True}
        if wants:
            patch = [{"op": "add", "path": "/spec/schedulerName", "value": self.scheduler}]
            reply |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": reply}

    def filter(self, args: dict) -> dict:
        names = [n for n in args["NodeNames"]
                 if "no-room" not in self.api.get(f"/api/v1/nodes/{n}")["metadata"]["labels"]]
        failed = {n: "CardInsufficientMemory" for n in args["NodeNames"] if n not in names}
        return {"NodeNames": names[:1], "FailedNodes": failed, "Error": ""}

    def bind(self, args: dict) -> dict:
        grant = "GPU-0,NVIDIA,1000,30:;"
        try:
            self.api.post(f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding", {
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": args["PodName"], "uid": args["PodUID"],
                             "labels": {"hami.io/vgpu-node": args["Node"]},
                             "annotations": {"hami.io/vgpu-node": args["Node"],
                                             "hami.io/vgpu-devices-allocated": grant,
                                             "hami.io/vgpu-devices-to-allocate": grant}},
                "target": {"kind": "Node", "name": args["Node"]}})
        except Refused as e:
            return {"Error": str(e)}
        return {"Error": ""}


def listen(address: str) -> ThreadingHTTPServer:
    host, port = address.split(":")
    return ThreadingHTTPServer((host, int(port)), Handler)


def main() -> None:
    flags = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:])
    Handler.api = Api(pathlib.Path(os.environ["KUBECONFIG"]))
    Handler.scheduler = flags["scheduler-name"]
    if "extender-bind" in flags:
        threading.Thread(target=listen(flags["extender-bind"]).serve_forever, daemon=True).start()
    server = listen(flags["http_bind"])
    if "cert_file" in flags:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(flags["cert_file"], flags["key_file"])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
