"""Python's requests: chat, streams, errors, closing, keep-alive."""
import json
import os
import subprocess
import time

import requests

URL = os.environ["SLUICE_URL"]
SCRIPTED = os.environ["SLUICE_SCRIPTED_URL"]
KEYED, KEY = os.environ["SLUICE_KEYED_URL"], os.environ["SLUICE_API_KEY"]
MODEL = "tiny-hybrid"
CHAT = "/v1/chat/completions"
STORY = "Once upon a time there was a little fox."
passed = 0


def check(name):
    """Runs the function at once and counts it."""
    def run(body):
        global passed
        body()
        passed += 1
        print("ok", name)
    return run


def body(**more):
    return {"model": MODEL, "messages": [{"role": "user", "content": STORY}],
            "temperature": 0, "max_tokens": 16, **more}


def events(reply):
    """Yields the data of each event of a stream."""
    for line in reply.iter_lines():
        if line.startswith(b"data: "):
            yield line[len(b"data: "):].decode()


def n_sequences():
    p = subprocess.run([os.environ["SLUICE_BIN"] + "/sluicectl", "sequences",
                        "--json"], capture_output=True, check=True)
    return len(json.loads(p.stdout)["sequences"])


@check("a session keeps its connection for several requests")
def _():
    with requests.Session() as s:
        first = s.post(URL + CHAT, json=body())
        again = s.post(URL + CHAT, json=body())
        assert first.status_code == again.status_code == 200
        assert first.json()["choices"] == again.json()["choices"]
        assert s.get(URL + "/v1/models").json()["data"][0]["id"] == MODEL


@check("a stream gives the text of the whole answer")
def _():
    whole = requests.post(URL + CHAT, json=body()).json()
    with requests.post(URL + CHAT, json=body(stream=True), stream=True) as r:
        assert r.headers["content-type"].startswith("text/event-stream")
        data = list(events(r))
    assert data.pop() == "[DONE]"
    text = "".join(choice["delta"].get("content") or "" for one in data
                   for choice in json.loads(one)["choices"])
    assert text == whole["choices"][0]["message"]["content"]


@check("a chunked body is read")
def _():
    text = json.dumps(body()).encode()
    r = requests.post(URL + CHAT, headers={"content-type": "application/json"},
                      data=(text[i:i + 7] for i in range(0, len(text), 7)))
    assert r.status_code == 200, r.text


@check("closing a stream frees its slot")
def _():
    with requests.post(URL + CHAT, stream=True, json=body(
            stream=True, max_tokens=3000, ignore_eos=True)) as r:
        data = events(r)  # kept, because its end closes the connection
        next(data)
        assert n_sequences() == 1
    end = time.monotonic() + int(os.environ["SLUICE_PATIENCE"])
    while n_sequences() > 0:
        assert time.monotonic() < end, "the slot is still held"
        time.sleep(0.05)


@check("errors name the field")
def _():
    r = requests.post(URL + CHAT, json=body(temperature="hot"))
    assert r.status_code == 400 and r.json()["error"]["param"] == "temperature"
    r = requests.post(URL + CHAT, data="{")
    assert r.status_code == 400 and r.json()["error"]["message"]
    r = requests.post(URL + CHAT, data=json.dumps(body()),
                      headers={"content-encoding": "gzip"})
    assert r.status_code == 415, r.status_code


@check("keys are asked for")
def _():
    assert requests.post(KEYED + CHAT, json=body()).status_code == 401
    good = {"authorization": "Bearer " + KEY}
    r = requests.post(KEYED + CHAT, json=body(), headers=good)
    assert r.status_code == 200


@check("HEAD and OPTIONS are answered")
def _():
    r = requests.head(URL + "/v1/models")
    assert r.status_code == 200 and r.content == b""
    assert int(r.headers["content-length"]) > 0
    assert requests.options(URL + CHAT).ok


@check("a tool is called")
def _():
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    tools = [{"type": "function", "function": {
        "name": "add", "parameters": {"type": "object", "properties": {}}}}]
    reply = requests.post(SCRIPTED + CHAT, json=body(
        tools=tools, max_tokens=100,
        messages=[{"role": "user", "content": f"[[reply:{call}:reply]]"}]))
    message = reply.json()["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {
        "a": 1}, reply.text


print(f"requests: {passed} passed, 0 failed")
