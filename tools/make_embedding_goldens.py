#!/usr/bin/env python3
"""What sentence-transformers makes of some texts with a real model, for tests/e2e/test_embeddings.py.

  make_embedding_goldens.py FOLDER OUT    FOLDER has the model; OUT is tests/models/embeddings/all-minilm.json

Per text: the token ids (with the special ones, cut as the model's max_seq_length says) and the vector, base64 of float32.
Needs sentence-transformers and torch.
"""
import base64
import hashlib
import importlib.metadata
import json
import sys
from pathlib import Path

PLAIN = """The quick brown fox jumps over the lazy dog.
A man is eating food.
A man is eating a piece of bread.
The girl is carrying a baby.
A man is riding a horse.
A woman is playing violin.
Two men pushed carts through the woods.
A cheetah is running behind its prey.
How do I reset my password?
I forgot my login credentials and cannot get in.
Berlin is the capital of Germany.
What is the boiling point of water at 3,000 m?
E = mc^2
def add(a, b):    return a + b
SELECT name FROM users WHERE id = 42;
https://example.com/path?query=value&other=1#fragment
user@example.com wrote on 2024-02-29 at 23:59:59.
1234567890 12,345.67 -0.5e-3 0xFF
ALL CAPS SHOUTING!!!
don't can't won't it's we're
state-of-the-art, well-being; semi-colon: colon
supercalifragilisticexpialidocious antidisestablishmentarianism
x
?
word word word word word word word word""".splitlines()
UNICODE = [
    "Caf\u00e9 cr\u00e8me br\u00fbl\u00e9e na\u00efve \u00dcber stra\u00dfe", "cafe\u0301 e\u0301 with combining marks", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430?",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u5929\u6c14\u5f88\u597d", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0939\u0948\u0932\u094b \u0926\u0941\u0928\u093f\u092f\u093e", "emoji \U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f end", "math \u2211 \u222b \u221a\u03c0 \u2264 \u221e", "\uff26\uff55\uff4c\uff4c\uff57\uff49\uff44\uff54\uff48 \uff11\uff12\uff13",
    "zero\u200bwidth no\u00a0break soft\u00adhyphen", "\ufeffbyte order mark first", "\u0130stanbul I\u015f\u0131k \u00df \u01c5", "curly \u201cquotes\u201d \u2018and\u2019 dash \u2014 ellipsis\u2026",
]
ODD = ["", " ", "\n\t  ", "[CLS] [SEP] [MASK] in a text", "  leading and trailing  ", "tab\tnew\nline\r\nreturn", "a\u0000b control \u0007 bell",
       "unknownglyph \U00013080 hieroglyph", "y" * 150]
LONG = [" ".join(PLAIN), " ".join(f"sentence number {i} is about rivers, bridges and the sea." for i in range(60)),
        "\u957f\u6587\u672c" * 200]
TEXTS = PLAIN + UNICODE + ODD + LONG


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    limit = model.max_seq_length
    items = []
    for text, vector in zip(TEXTS, model.encode(TEXTS, batch_size=1, convert_to_numpy=True)):
        ids = model.tokenizer(text, truncation=True, max_length=limit)["input_ids"]
        items.append({"text": text, "ids": ids, "vector": base64.b64encode(vector.astype("<f4").tobytes()).decode()})
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    head = {"model_sha256": weights, "max_tokens": limit, "width": len(vector),
            "versions": {n: importlib.metadata.version(n) for n in ("sentence-transformers", "torch", "transformers")}}
    lines = ",\n  ".join(json.dumps(item) for item in items)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(head)[:-1] + f', "texts": [\n  {lines}\n]}}\n')
    print(f"{len(items)} texts, {out.stat().st_size} bytes, longest {max(len(i['ids']) for i in items)} tokens")


if __name__ == "__main__":
    main()
