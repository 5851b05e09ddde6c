#!/usr/bin/env python3
"""Render small templates with Jinja2 and write cases.json beside this file.

Needs Python's jinja2 (3.1).  The environment has the options that
transformers uses for chat templates; methods that change lists are allowed.
A case's result is "rendered", or "error" with the exception.
"""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 11, 22)


class Generation(jinja2.ext.Extension):
    """The generation block, which prints its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"],
                                       drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


ENV = jinja2.sandbox.SandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True,
    extensions=[Generation, jinja2.ext.loopcontrols])
ENV.filters["tojson"] = tojson
ENV.filters["from_json"] = json.loads
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = NOW.strftime

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi <b>&"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None]}}}]},
    {"role": "tool", "content": "r\u00e9sult \u2603"},
    {"role": "user", "content": [{"type": "text", "text": "x"}]},
]
VARS = {
    "messages": MESSAGES, "s": "Hello World", "e": "", "n": 7, "m": -3,
    "f": 2.5, "t": True, "z": None, "l": [3, 1, 2], "w": ["b", "A", "c"],
    "d": {"k": "v", "a": 1, "n": {"x": [1, 2]}, "items": 5},
    "u": "\u00e9t\u00e9 \u00df \u4e16\u754c \U0001f600", "p": "  pad \n",
    "q": "it's \"q\"\\ \t\n", "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"},
                                      {"a": 1, "b": "z"}],
    "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
    "tools": [
        {"type": "function", "function": {
            "name": "weather", "description": "Get \"it\".", "parameters": {
                "type": "object", "required": ["city"], "properties": {
                    "city": {"type": "string", "enum": ["Paris", "Rome"]},
                    "days": {"type": ["integer", "null"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "at": {"type": "object", "properties": {
                        "x": {"type": "number"}}}}}}},
        {"type": "function", "function": {
            "name": "now", "description": "", "parameters": {}}}],
}
EXPRESSIONS = pathlib.Path(__file__).with_name("expressions.txt")
TEMPLATES = pathlib.Path(__file__).with_name("blocks.txt")


def render(source):
    try:
        return {"rendered": ENV.from_string(source).render(
            **json.loads(json.dumps(VARS)))}
    except Exception as e:  # whatever the reference raises is an error
        return {"error": f"{type(e).__name__}: {e}"}


def sources():
    for line in EXPRESSIONS.read_text().splitlines():
        if line and not line.startswith("## "):
            yield "{{ " + line + " }}"
    for block in TEMPLATES.read_text().split("\n====\n"):
        yield block


def main():
    rows = [{"source": s, **render(s)} for s in sources()]
    out = pathlib.Path(__file__).with_name("cases.json")
    with out.open("w") as f:
        f.write('{"vars": ' + json.dumps(VARS) + ',\n"cases": [\n')
        for i, row in enumerate(rows):
            f.write(json.dumps(row) + (",\n" if i + 1 < len(rows) else "\n"))
        f.write("]}\n")
    print(len(rows), "cases,", sum("error" in r for r in rows), "errors")


if __name__ == "__main__":
    main()
