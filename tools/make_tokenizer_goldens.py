#!/usr/bin/env python3
"""Writes small tokenizers of every kind with the ids that Python's tokenizers gives: tests/data/tokenizers/.

Needs `pip install tokenizers==0.23.3`. The corpus is deterministic: corpus.txt holds 1,000 lines (a
line feed inside a text is written as U+240A, a carriage return as U+240D), goldens.json per tokenizer the SHA-256 starts
of ids and decoded text. Unigram and WordPiece training breaks ties differently each time, so all files are written
together.
"""

import hashlib
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/data/tokenizers"
LINES = 1000
BLOCK = 100
SPECIALS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")

WORDS = ("the of water runs under bridge while seven small lamps glow it's we'll they've don't I'd Straße naïve façade "
         "Ελλάδα привет мир שלום नमस्ते 漢字 かな カナ 한국어 🙂 👨‍👩‍👧‍👦 e\u0301 ﬁne ½ Ⅷ ٣٤ 42 2026 3.14159 1,000,000 0x1F "
         "snake_case camelCase HTTPServer foo() arr[i]++ a->b x==y !=~ <b>&amp;</b> https://example.org/a?b=c#d "
         "C:\\path\\to user@example.org #tag $9.99 100% \u00a0 \u200b … “quoted” ‘single’ — – ·").split(" ")
SHAPES = ["{0} {1} {2}.", "  {0}   {1}\t{2}", "def {0}({1}):\n    return {2}  # {3}", "{0}\n\n\n{1}\r\n{2} ",
          "{0}{1}{2}", "| {0} | {1} |", "    if {0}:\n\t\t{1} = {2};", "{0}, {1}; {2}: {3}!?", "{0}<|im_end|>{1} <s>{2}",
          "<|im_start|>{0}\n{1}", "{0}" + " " * 17 + "{1}", "{0}...{0}...{0}", " {0}", "{0} ", "{{\"{0}\": [{1}, {2}]}}"]


def corpus():
    chance = random.Random(20260704)
    lines = ["", " ", "   ", "\n", "a", "é", "🙂", "<s>", "  <s>  ", "x" * 200, "\u0000\u0001\u007f", "ſ K ẞ"]
    while len(lines) < LINES:
        words = [chance.choice(WORDS) + str(chance.randrange(10**chance.randrange(1, 7))) * (chance.random() < 0.2)
                 for _ in range(4)]
        lines.append(chance.choice(SHAPES).format(*words))
    return lines


def added():
    return [AddedToken(token, special=True, normalized=False) for token in SPECIALS] + [
        AddedToken("<think>", special=False, normalized=False),
        AddedToken("strip me", special=False, normalized=False, lstrip=True, rstrip=True, single_word=True)]


def trained(model, trainer, lines, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens(added())
    return tokenizer


def bpe_trainer(alphabet=()):
    return trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIALS, show_progress=False,
                               initial_alphabet=list(alphabet))


def byte_level(use_regex, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def with_byte_tokens(tokenizer):
    """Adds <0x00> to <0xFF> to the model, as SentencePiece vocabularies have them."""
    spec = json.loads(tokenizer.to_str())
    vocab = spec["model"]["vocab"]
    start = max(vocab.values()) + len(added()) + 1
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = start + byte
    spec["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    return Tokenizer.from_str(json.dumps(spec))


def tokenizers(lines):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bos = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    both = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    fused = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                               decoders.Strip(" ", 1, 0)])
    some = lines[::3]
    gpt2 = trained(models.BPE(), bpe_trainer(alphabet), some, normalizer=normalizers.NFC(),
                   pre_tokenizer=byte_level(True, prefix=True), decoder=decoders.ByteLevel(),
                   post_processor=processors.ByteLevel(trim_offsets=False))
    llama3 = trained(models.BPE(ignore_merges=True), bpe_trainer(alphabet), some,
                     pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                                            byte_level(False)]),
                     decoder=decoders.ByteLevel(), post_processor=bos)
    digits = trained(models.BPE(), bpe_trainer(alphabet), some,
                     pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                            byte_level(True)]),
                     decoder=decoders.ByteLevel())
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    legacy = trained(models.BPE(unk_token="<unk>"), bpe_trainer(), some, normalizer=prepend, decoder=fused,
                     post_processor=both)
    first = trained(models.BPE(unk_token="<unk>"), bpe_trainer(), some,
                    pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                    decoder=decoders.Metaspace(prepend_scheme="first"), post_processor=bos)
    unigram = trained(models.Unigram(),
                      trainers.UnigramTrainer(vocab_size=700, special_tokens=SPECIALS, unk_token="<unk>",
                                              show_progress=False),
                      some, normalizer=normalizers.NFKC(), pre_tokenizer=pre_tokenizers.Metaspace(),
                      decoder=decoders.Metaspace(), post_processor=both)
    words = trained(models.WordPiece(unk_token="<unk>"),
                    trainers.WordPieceTrainer(vocab_size=700, special_tokens=SPECIALS, show_progress=False), some,
                    normalizer=normalizers.BertNormalizer(), pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
                    decoder=decoders.WordPiece(), post_processor=both)
    return {"gpt2": gpt2, "llama3": llama3, "digits": digits, "sentencepiece": with_byte_tokens(legacy),
            "metaspace_first": with_byte_tokens(first), "unigram": unigram, "wordpiece": words}


def short_hash(items):
    return hashlib.sha256("\n".join(items).encode()).hexdigest()[:16]


def hashes(tokenizer, lines):
    blocks = [lines[start:start + BLOCK] for start in range(0, len(lines), BLOCK)]
    ids = [[tokenizer.encode(line).ids for line in block] for block in blocks]
    as_text = lambda block: [" ".join(map(str, row)) for row in block]  # noqa: E731
    decoded = [short_hash([tokenizer.decode(row, skip_special_tokens=True) for row in block]) for block in ids]
    tokenizer.encode_special_tokens = True
    plain = [[tokenizer.encode(line, add_special_tokens=False).ids for line in block] for block in blocks]
    return {"ids": [short_hash(as_text(block)) for block in ids],
            "plain": [short_hash(as_text(block)) for block in plain], "decoded": decoded}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = corpus()
    assert all("\u240a" not in line and "\u240d" not in line for line in lines)
    written = [line.replace("\n", "\u240a").replace("\r", "\u240d") for line in lines]
    (FOLDER / "corpus.txt").write_text("\n".join(written) + "\n", encoding="utf-8", newline="\n")
    goldens = {"made_by": f"tokenizers {__version__}", "block": BLOCK, "tokenizers": {}}
    for name, tokenizer in tokenizers(lines).items():
        (FOLDER / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False) + "\n",
                                             encoding="utf-8")
        goldens["tokenizers"][name] = hashes(tokenizer, lines)
    (FOLDER / "goldens.json").write_text(json.dumps(goldens, indent=1) + "\n")


if __name__ == "__main__":
    main()
