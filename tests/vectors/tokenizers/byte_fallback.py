#!/usr/bin/env python3
"""Write a small tokenizer with byte_fallback, and what it must encode.

    byte_fallback.json         in the form of Gemma's tokenizer.json
    byte_fallback.golden.json  texts, their ids, and the text that ids decode to
    byte_fallback.spm.json     the vocabulary with scores and types, as GGUF
                               files have it, and ids by merges that follow from
                               scores (transformers' generate_merges)

The encoder here follows the definition: characters that are no token become
bytes; then the pair of the lowest rank, the leftmost of equals, is joined again
and again.  It shares nothing with text/.
"""
import json
import os
import random
import re

HERE = os.path.dirname(os.path.abspath(__file__))
SPACE = "\u2581"

CORPUS = """
The quick brown fox jumps over the lazy dog, and the other dogs bark at it.
A tokenizer turns text into numbers; the numbers go into the model.
def main(argc, argv):\n    if argc > 1:\n        return argv[1]\n    return 0
Zürich, Köln und München liegen nicht am Meer. Größe: 100 000 m².
L'été, les élèves français étudient près de la forêt.
Привет, мир! Как дела? Это просто текст, и ничего больше.
今日は天気がいいですね。 東京は日本の首都です。
1 + 1 = 2; 2 * 3 = 6; 10 / 4 = 2.5; (a + b) * c
"""

SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>",
           "<end_of_turn>"]
ADDED = ["\n\n", "\n\n\n", SPACE * 2, SPACE * 3, SPACE * 4, "<b>", "</b>"]


def train(text, n):
    """Return first characters and merges, the most frequent pairs first."""
    lines = [list(line.replace(" ", SPACE)) for line in text.split("\n")]
    chars = sorted({c for line in lines for c in line} | {"\n", SPACE})
    merges, seen = [], set(chars)
    for _ in range(n):
        counts = {}
        for line in lines:
            for pair in zip(line, line[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        counts = {p: c for p, c in counts.items()
                  if c > 1 and SPACE not in p[1] and p[0] + p[1] not in seen}
        if not counts:
            break
        best = max(counts, key=lambda p: (counts[p], p))
        merges.append(best)
        seen.add(best[0] + best[1])
        lines = [join(line, best) for line in lines]
    return chars, merges


def join(line, pair):
    out, i = [], 0
    while i < len(line):
        if i + 1 < len(line) and (line[i], line[i + 1]) == pair:
            out.append(line[i] + line[i + 1])
            i += 2
        else:
            out.append(line[i])
            i += 1
    return out


def build():
    chars, merges = train(CORPUS, 260)
    # Runs of spaces and line ends, whose merges meet at several places, and
    # two merges with one result.
    merges += [(SPACE, SPACE), (SPACE * 2, SPACE), (SPACE * 2, SPACE * 2),
               (SPACE, SPACE * 2), ("\n", "\n"), ("\n\n", "\n"),
               ("a", "a"), ("aa", "a"), ("aa", "aa"), ("b", "aa")]
    # One token is made by no merge.
    tokens = list(SPECIAL)
    tokens += ["<0x%02X>" % b for b in range(256)]
    for t in ADDED + [a + b for a, b in merges] + chars + ["unreachable"]:
        if t not in tokens:
            tokens.append(t)
    vocab = {t: i for i, t in enumerate(tokens)}
    added = [{"id": vocab[t], "content": t, "single_word": False,
              "lstrip": False, "rstrip": False, "normalized": False,
              "special": t in SPECIAL} for t in SPECIAL + ADDED]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "},
                       "content": SPACE},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "},
                          "behavior": "MergedWithPrevious", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [vocab["<bos>"]],
                                         "tokens": ["<bos>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True,
                  "ignore_merges": False, "vocab": vocab,
                  "merges": [[a, b] for a, b in merges]},
    }


def bpe(word, vocab, ranks):
    parts = []
    for c in word:
        if c in vocab:
            parts.append(c)
        else:
            parts += ["<0x%02X>" % b for b in c.encode()]
    while True:
        found = [(ranks[p], i) for i, p in enumerate(zip(parts, parts[1:]))
                 if p in ranks]
        if not found:
            return [vocab[p] for p in parts]
        _, i = min(found)
        parts[i:i + 2] = [parts[i] + parts[i + 1]]


def encode(text, t, ranks):
    """Ids of a text whose control tokens count."""
    vocab = t["model"]["vocab"]
    contents = sorted((a["content"] for a in t["added_tokens"]),
                      key=len, reverse=True)
    ids = []
    for piece in re.split("(" + "|".join(map(re.escape, contents)) + ")", text):
        if piece in contents:
            ids.append(vocab[piece])
        elif piece:
            ids += bpe(piece.replace(" ", SPACE), vocab, ranks)
    return ids


def decode(ids, t):
    names = {i: s for s, i in t["model"]["vocab"].items()}
    out = b""
    for i in ids:
        m = re.fullmatch("<0x([0-9A-F]{2})>", names[i])
        out += (bytes([int(m.group(1), 16)]) if m
                else names[i].replace(SPACE, " ").encode())
    return out.decode()


def texts(t):
    r = random.Random(24)
    yield from ["", " ", "  ", "   ", " " * 17, "a", "the", " the", "the the",
                "unreachable", "\n", "\n\n", "\n\n\n\n\n", "a\n\nb", "\u2581",
                "\u2581\u2581", " \u2581 ", "🙂", "a🙂b", "🙂🙂", "\U0001F600",
                "é", "e\u0301", "ß", "Ⅷ", "\x00", "\x7f", "\t", "<0x41>",
                "<bos>", "<bos>hi", "<start_of_turn>user\nhi<end_of_turn>\n",
                "<b>bold</b>", "<b><b>", "<start_of_turn", "aaaaaaa", "baaab",
                "ሰላም", "한국어", "ÿ", "日本", "日本🙂の首都", "1 000 000",
                "def f(x):\n    return x\n", "x" * 40, "ab" * 20, CORPUS]
    pool = sorted({c for c in CORPUS}) + list(" \n\u2581🙂ሰé")
    words = [s.replace(SPACE, " ") for s in t["model"]["vocab"]
             if not s.startswith("<")]
    for _ in range(120):
        yield "".join(r.choice(pool) for _ in range(r.randrange(1, 60)))
    for _ in range(120):
        yield "".join(r.choice(words) for _ in range(r.randrange(1, 30)))


def generate_merges(scores):
    """Merges of a SentencePiece vocabulary, as transformers makes them."""
    ids = {t: i for i, t in enumerate(scores)}
    merges = []
    for piece, score in scores.items():
        local = [(piece[:i], piece[i:], score) for i in range(1, len(piece))
                 if piece[:i] in ids and piece[i:] in ids]
        merges += sorted(local, key=lambda m: (ids[m[0]], ids[m[1]]))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [(a, b) for a, b, _ in merges]


def sentencepiece(t):
    """Scores, types and ids; what llama.cpp's conversion would write."""
    r = random.Random(7)
    vocab = t["model"]["vocab"]
    scores, tokens, types = {}, [], []
    for piece in vocab:
        kind = (3 if piece in SPECIAL else 6 if piece.startswith("<0x") else
                4 if piece in ADDED else 1)
        types.append(2 if piece == "<unk>" else kind)
        tokens.append(piece.replace(SPACE, " ") if kind == 4 else piece)
        # Equal scores are common among a file's first and last tokens.
        scores[piece] = 0.0 if kind in (3, 4, 6) else -float(r.randrange(150))
    ranks = {}
    for i, pair in enumerate(generate_merges(scores)):
        ranks.setdefault(pair, i)
    return {
        "tokens": tokens, "types": types,
        # Added tokens lose their score.
        "scores": [-1000.0 if k == 4 else v
                   for k, v in zip(types, scores.values())],
        "rows": [{"text": x, "ids": encode(x, t, ranks)} for x in texts(t)],
    }


def main():
    t = build()
    ranks = {}
    for i, pair in enumerate(t["model"]["merges"]):
        ranks.setdefault(tuple(pair), i)
    rows = []
    for text in texts(t):
        ids = encode(text, t, ranks)
        rows.append({"text": text, "ids": ids, "decoded": decode(ids, t)})
    with open(os.path.join(HERE, "byte_fallback.json"), "w") as f:
        json.dump(t, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")
    with open(os.path.join(HERE, "byte_fallback.spm.json"), "w") as f:
        json.dump(sentencepiece(t), f, separators=(",", ":"))
        f.write("\n")
    with open(os.path.join(HERE, "byte_fallback.golden.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
