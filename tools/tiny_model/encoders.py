"""Fixtures of encoders: texts in, one vector or score each. The reference is transformers in float32 (with what
sentence-transformers puts behind it); needs torch, transformers, sentence-transformers."""
import importlib.metadata
import json
import tempfile
from pathlib import Path

import numpy as np

from tiny_model import generator, variants
from tiny_model.recipes import TensorList, quantization_of

MODULES = "sentence_transformers_modules"  # as the program puts modules.json and its files into a config


def modules(pooling, *more, tokens=320):
    return [{"type": "Transformer", "path": "", "config": {"max_seq_length": tokens}},
            {"type": "Pooling", "path": "1_Pooling", "config": {f"pooling_mode_{pooling}": True}}, *more]


NORMALIZE = {"type": "Normalize", "path": "3_Normalize", "config": {}}
DENSE = {"type": "Dense", "path": "2_Dense", "config": {"in_features": 96, "out_features": 40, "bias": True,
                                                        "activation_function": "torch.nn.modules.activation.Tanh"}}
BERT = {
    "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 96, "intermediate_size": 160,
    "num_hidden_layers": 3, "num_attention_heads": 6, "max_position_embeddings": 320, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "position_embedding_type": "absolute", "vocab_size": 120, "pad_token_id": 0,
    "torch_dtype": "float32", MODULES: modules("mean_tokens", NORMALIZE),
}
Q = {"group_size": 32}
RECIPES = {
    "bert": BERT,
    "bert-cls": {**BERT, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "gelu_new", "torch_dtype": "bfloat16",
                 "layer_norm_eps": 1e-5, MODULES: modules("cls_token", DENSE, NORMALIZE)},
    "bert-last": {**BERT, "num_hidden_layers": 1, "torch_dtype": "float16", MODULES: modules("lasttoken", tokens=310)},
    "bert-score": {**BERT, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
    "bert-q4": {**BERT, "torch_dtype": "float16", "quantization": {**Q, "bits": 4}},
    "bert-q8": {**BERT, "torch_dtype": "bfloat16", "quantization": {**Q, "bits": 8}},
}
for score in ("bert-score",):
    del RECIPES[score][MODULES]
LENGTHS = (300, 37, 130, 64, 2, 1)  # past a block of 64 and a partition of 256
NOTICED = 1e-3  # a field that matters moves some number by at least this


def is_scoring(config):
    return config["architectures"][0].endswith("ForSequenceClassification")


def tensor_list(config):
    tensors, hidden, ffn = TensorList(config), config["hidden_size"], config["intermediate_size"]
    prefix = "bert." if is_scoring(config) else ""

    def norm(name):
        tensors.vector(f"{name}.weight", hidden, 1.0, 0.25)
        tensors.vector(f"{name}.bias", hidden, 0.0, 0.5)

    embeddings = f"{prefix}embeddings"
    tensors.matrix(f"{embeddings}.word_embeddings", config["vocab_size"], hidden, 10.0)
    tensors.matrix(f"{embeddings}.position_embeddings", config["max_position_embeddings"], hidden, 5.0)
    tensors.matrix(f"{embeddings}.token_type_embeddings", config["type_vocab_size"], hidden, 5.0)
    norm(f"{embeddings}.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        name = f"{prefix}encoder.layer.{layer}"
        for part in ("query", "key"):
            tensors.linear(f"{name}.attention.self.{part}", hidden, hidden, 1.5, True)
        tensors.linear(f"{name}.attention.self.value", hidden, hidden, 1.0, True)
        tensors.linear(f"{name}.attention.output.dense", hidden, hidden, 1.0, True)
        norm(f"{name}.attention.output.LayerNorm")
        tensors.linear(f"{name}.intermediate.dense", ffn, hidden, 1.0, True)
        tensors.linear(f"{name}.output.dense", hidden, ffn, 1.0, True)
        norm(f"{name}.output.LayerNorm")
    tensors.linear(f"{prefix}pooler.dense", hidden, hidden, 1.0, True)
    if is_scoring(config):
        tensors.linear("classifier", 1, hidden, 1.0, True)
    for module in config.get(MODULES, []):
        if module["type"] == "Dense":
            own = module["config"]
            tensors.linear(f"{module['path']}/linear", own["out_features"], own["in_features"], 1.0, own["bias"])
    return tensors.entries


def dense_weights(config, tensors):
    """Float32 weights under their dense names; affine codes are unpacked here."""
    stored = {t["name"]: generator.to_float32(generator.fill(t), t["dtype"]) for t in tensors}
    dense = {}
    for name, array in stored.items():
        module = name.rpartition(".")[0]
        if name.endswith((".scales", ".biases")):
            continue
        if f"{module}.scales" in stored and name.endswith(".weight"):
            form = quantization_of(config, module)
            bits, group, per_word = form["bits"], form["group_size"], 32 // form["bits"]
            codes = (array[..., None] >> (np.arange(per_word, dtype=np.uint32) * np.uint32(bits))) & np.uint32(2**bits - 1)
            codes = codes.reshape(array.shape[0], -1, group).astype(np.float32)
            array = codes * stored[f"{module}.scales"][..., None] + stored[f"{module}.biases"][..., None]
            array = array.reshape(array.shape[0], -1).astype(np.float32)
        dense[name] = array
    return dense


class Reference:
    def __init__(self, config, tensors):
        import torch
        from transformers import AutoConfig, AutoModelForSequenceClassification, BertModel

        self.torch, self.config = torch, config
        plain = {k: v for k, v in config.items() if k not in ("quantization", "quantization_config", MODULES)}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(plain))
            loaded = AutoConfig.from_pretrained(folder)
        loaded._attn_implementation = "eager"
        weights = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in dense_weights(config, tensors).items()}
        self.behind = {k: v for k, v in weights.items() if "/" in k}
        weights = {k: v for k, v in weights.items() if "/" not in k}
        if is_scoring(config):
            self.model = AutoModelForSequenceClassification.from_config(loaded, dtype=torch.float32)
        else:
            self.model = BertModel(loaded).to(torch.float32)
        self.model.eval()
        absent, unknown = self.model.load_state_dict(weights, strict=False)
        if absent or unknown:
            raise ValueError(f"absent tensors {absent}, unknown tensors {unknown}")

    def one(self, ids, types):
        torch = self.torch
        with torch.no_grad():
            out = self.model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]))
            if is_scoring(self.config):
                return torch.sigmoid(out.logits[0]).numpy()
            return self.after(out.last_hidden_state[0]).numpy()

    def after(self, hidden):
        """[tokens, hidden] through the modules, as sentence-transformers defines them."""
        torch, x = self.torch, hidden.mean(0)
        for module in self.config.get(MODULES, []):
            own = module["config"]
            if module["type"] == "Pooling":
                x = hidden[0] if own.get("pooling_mode_cls_token") else hidden[-1] if own.get("pooling_mode_lasttoken") else x
            elif module["type"] == "Dense":
                weight, bias = (self.behind[f"{module['path']}/linear.{part}"] for part in ("weight", "bias"))
                x = torch.nn.functional.linear(x, weight, bias)
                x = torch.tanh(x) if own["activation_function"].endswith("Tanh") else x
            elif module["type"] == "Normalize":
                x = torch.nn.functional.normalize(x, p=2, dim=0)
        return x


WORDS = ("the a of in on to over under is and cat fish river sea water stone bridge rain old new cold swim run fall near far "
         "##s ##ing ##ed").split()


def wordpiece_tokenizer():
    """A tokenizer.json like BERT's, of at most 120 tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), *".,?!-'", *WORDS]
    added = [{"id": i, "content": t, "special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
             for i, t in enumerate(tokens[:5])]

    def special(name, kind):
        return {"SpecialToken": {"id": name, "type_id": kind}}

    def sequence(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single,
                           "pair": single + [sequence("B", 1), special("[SEP]", 1)],
                           "special_tokens": {t: {"id": t, "ids": [tokens.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": {t: i for i, t in enumerate(tokens)}},
    }


QUERY = "Does the fish swim under the bridge?"
DOCUMENTS = ("The fish swims in the cold river.", "An old stone bridge", "rain", "Caf\u00e9 on the sea, far and near!",
             "the water under the new bridge is cold and the fish swim")


def pairs_of(reference):
    """The score of each document for the query, tokenised by the tokenizers library."""
    from tokenizers import Tokenizer

    tokenizer, pairs = Tokenizer.from_str(json.dumps(wordpiece_tokenizer())), []
    for document in DOCUMENTS:
        encoded = tokenizer.encode(QUERY, document)
        score = float(reference.one(encoded.ids, encoded.type_ids)[0])
        pairs.append({"query": QUERY, "document": document, "ids": encoded.ids, "types": encoded.type_ids, "score": score})
    return pairs


def texts_of(vocab_size):
    """Of each length the stream "prompt.i"; the second half of the even ones has type 1."""
    texts = []
    for i, n in enumerate(LENGTHS):
        ids = [int(z % np.uint64(vocab_size)) for z in generator.stream(f"prompt.{i}", n)]
        texts.append({"ids": ids, "types": [int(i % 2 == 0 and at >= n // 2) for at in range(n)]})
    return texts


def changes_of(config):
    change = variants.change
    if "quantization" in config:
        return variants.quantization_changes(config)
    fields = ("hidden_size", "intermediate_size", "num_hidden_layers")
    changes = [change(f, {f: config[f] * 2}, "error") for f in fields]
    changes += [change(f, {f: config[f] + 8}, "error") for f in ("vocab_size", "max_position_embeddings", "type_vocab_size")]
    changes += [
        change("num_attention_heads", {"num_attention_heads": config["num_attention_heads"] // 2}),
        change("layer_norm_eps", {"layer_norm_eps": 0.5}),
        change("hidden_act", {"hidden_act": "silu"}),
        change("hidden_act", {"hidden_act": "relu"}, or_error=True),
        change("position_embedding_type", {"position_embedding_type": "relative_key"}, "error"),
        change("is_decoder", {"is_decoder": True}, "error"),
    ]
    if is_scoring(config):
        return changes + [change("id2label", {"id2label": {"1": "more"}}, "error"),
                          change("architectures", {"architectures": ["BertModel"]}, "error")]
    cls = {MODULES: [{"type": "Pooling", "path": "", "config": {"pooling_mode_cls_token": True}}]}
    if config["num_hidden_layers"] == BERT["num_hidden_layers"]:
        changes += [change("pooling_mode_cls_token", cls), change("modules", {MODULES: None}),
                    change("pooling_mode_max_tokens", {MODULES: modules("max_tokens")}, "error")]
    return changes


def make(name):
    """(index, rows) of one fixture."""
    config = RECIPES[name]
    tensors, texts = tensor_list(config), texts_of(config["vocab_size"])
    reference = Reference(config, tensors)
    rows = [reference.one(t["ids"], t["types"]) for t in texts]
    changes = []
    for change in changes_of(config):
        notes = dict(change)
        if change["expect"] == "logits":
            row = Reference(variants.merge(config, change["patch"]), tensors).one(texts[0]["ids"], texts[0]["types"])
            notes["change"] = float(f"{np.abs(row - rows[0]).max():.2e}")
            if notes["change"] < NOTICED:
                raise ValueError(f"{change['field']} does not matter: {notes}")
            notes["row"] = len(rows)
            rows.append(row)
        changes.append(notes)
    versions = {n: importlib.metadata.version(n) for n in ("torch", "transformers")}
    index = {"reference": {"name": "transformers", "dtype": "float32", "attention": "eager", **versions},
             "width": len(rows[0]), "fields_that_matter": sorted({c["field"] for c in changes}),
             "variants": changes, "texts": texts}
    if is_scoring(config):
        index["pairs"] = pairs_of(reference)
    return index, np.stack(rows).astype("<f4")
