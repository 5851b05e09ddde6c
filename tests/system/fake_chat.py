"""fake_chat.py - A chat server for tests of `sluice chat`.

Prints its URL, then serves until it is killed.  The reply repeats the request
in words, so that a test sees what was sent:

    N messages, last: TEXT          (after the reasoning "hm")

Questions with a meaning of their own:

    slow      words without end, one each 50 ms
    refuse    HTTP 429 with an error in OpenAI's form
    pause     a word, then 300 ms later the rest
    break     an error inside the stream
    escape    a reply with a control sequence of a terminal
    huge N    N bytes that are no stream
    request   the fields of the request without the messages
"""
import http.server
import json
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def send_json(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_json(200, {"data": [{"id": "fake-model"}]})

    def event(self, data):
        self.wfile.write(b"data: " + data.encode() + b"\n\n")
        self.wfile.flush()

    def delta(self, **delta):
        self.event(json.dumps({"choices": [{"index": 0, "delta": delta}]}))

    def stream(self, request, last):
        self.delta(reasoning_content="hm")
        while last == "slow":
            self.delta(content="tick ")
            time.sleep(0.05)
        if last == "pause":
            self.delta(content="tick ")
            time.sleep(0.3)
        if last == "break":
            self.event(json.dumps({"error": {"message": "the stream broke"}}))
            return
        text = f"{len(request['messages'])} messages, last: {last}"
        if last == "escape":
            text = "a\x1b]0;title\x07b"
        if last == "request":
            text = json.dumps({k: v for k, v in request.items()
                               if k != "messages"}, sort_keys=True)
        for word in text.split(" "):
            self.delta(content=word + " ")
        self.event(json.dumps({"choices": [], "usage": {
            "prompt_tokens": 3, "completion_tokens": 5}}))
        self.event("[DONE]")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)
        last = request["messages"][-1]["content"]
        if self.headers.get("Authorization") not in (None, "Bearer good"):
            self.send_json(401, {"error": {"message": "unknown key"}})
            return
        if last == "refuse":
            self.send_json(429, {"error": {"message": "too many requests"}})
            return
        if last.startswith("huge "):
            self.send_json(200, "x" * (int(last[5:]) - 2))  # and two quotes
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        try:
            self.stream(request, last)
        except OSError:
            pass  # the client has cancelled


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
sys.stdout.close()
server.serve_forever()
