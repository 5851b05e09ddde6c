"""tree.py - What the tests of the house know of the sources and the objects.

Only text and symbol tables are read, no compiler runs: each test takes a second
or two.
"""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = ("common", "text", "kernels", "worker", "router", "client", "gateway")

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
# A function with a body, as clang-format lays it out: the head begins in the
# first column, and so does the brace that closes the body.
FUNCTION = re.compile(
    r"^(?!#)(?P<head>[A-Za-z_][\w \*\n]*?[ \*])(?P<name>\w+)"
    r"\((?P<parameters>(?:[^(){};]|\([^()]*\))*)\)\n\{\n(?P<body>.*?)^\}",
    re.M | re.S)


def blank(match):
    """The same number of lines without text."""
    return re.sub(r"[^\n]", " ", match[0])


def without_comments(text):
    return COMMENT.sub(blank, text)


def without_text(text):
    """Neither comments nor the contents of strings."""
    return STRING.sub('""', without_comments(text))


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def sources(root, suffixes=(".c", ".h", ".inc", ".cl")):
    """The files of the product, as paths below root."""
    for top in TOP:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in suffixes:
                yield path.relative_to(root).as_posix()


def objects(build, root):
    """(source, object) of the product; neither generated nor left over."""
    for top in TOP:
        for path in sorted((build / top).rglob("*.c.o")):
            folder, _, inner = path.as_posix().partition("/CMakeFiles/")
            inner = inner.split(".dir/", 1)[1][:-2]
            source = pathlib.PurePath(folder).relative_to(build) / inner
            if (root / source).is_file():
                yield source.as_posix(), path


def symbols(found):
    """(source, symbol, its letter in nm) of [(source, object)]; "U": used."""
    source = {str(o): s for s, o in found}
    out = subprocess.run(["nm", "-A", "-g", *source], capture_output=True,
                         text=True, check=True).stdout
    for line in out.split("\n"):
        path, _, rest = line.partition(".o:")
        words = rest.split()
        if len(words) >= 2:
            yield source[path + ".o"], words[-1], words[-2]


def exceptions(path):
    """{name: why} of a list: a name, spaces, and the reason, one a line."""
    out = {}
    for line in path.read_text().split("\n"):
        name, _, why = line.partition(" ")
        if name and not name.startswith("#"):
            out[name] = why.strip()
    return out
