#!/usr/bin/env python3
"""Writes what transformers makes of real chat templates: tests/data/template_goldens.json.

Needs `pip install transformers==5.24.0 jinja2==3.1.6` and the test data of tools/fetch_test_data.py. Each entry is the
start of the SHA-256 of the rendered text, or "error: " and the message for a template that refuses the conversation.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import sys

import fetch_test_data

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVERSATIONS = ROOT / "tests/data/template_conversations.json"
GOLDENS = ROOT / "tests/data/template_goldens.json"
NOW = datetime.datetime(2026, 7, 4, 15, 6, 7)
SPECIALS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class FrozenDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def render(utils, source, context):
    """The text, or "error: ..." as the golden file has it."""
    messages = utils._normalize_chat_messages(context["messages"])
    variables = {**SPECIALS, **context.get("chat_template_kwargs", {})}
    try:
        rendered, _ = utils.render_jinja_template(
            conversations=[messages],
            tools=context.get("tools"),
            documents=context.get("documents"),
            chat_template=source,
            add_generation_prompt=context.get("add_generation_prompt", False),
            **variables,
        )
    except Exception as error:  # noqa: BLE001 - a template may fail in any way
        raised = type(error).__name__ == "TemplateError"
        return None, f"error: {error}" if raised else "error"
    return rendered[0], hashlib.sha256(rendered[0].encode()).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", nargs=2, metavar=("TEMPLATE", "CONVERSATION"), help="print one rendered text instead")
    args = parser.parse_args()
    import jinja2
    import transformers
    from transformers.utils import chat_template_utils as utils

    utils.datetime = FrozenDatetime
    folder = fetch_test_data.templates_dir()
    conversations = json.loads(CONVERSATIONS.read_text())
    if args.text:
        source = (folder / f"{args.text[0]}.jinja").read_text(encoding="utf-8")
        text, golden = render(utils, source, conversations[args.text[1]])
        sys.stdout.write(golden if text is None else text)
        return
    goldens = {}
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        goldens[path.stem] = [render(utils, source, context)[1] for context in conversations.values()]
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in goldens.items())
    made_by = f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}"
    GOLDENS.write_text(
        "{\n"
        f'  "made_by": {json.dumps(made_by)},\n'
        f'  "now": {int((NOW - datetime.datetime(1970, 1, 1)).total_seconds())},\n'
        f'  "specials": {json.dumps(SPECIALS)},\n'
        f'  "conversations": {json.dumps(list(conversations))},\n'
        f'  "templates": {{\n{rows}\n  }}\n}}\n',
        encoding="utf-8",
    )
    outcomes = [golden for row in goldens.values() for golden in row]
    errors = sum(golden.startswith("error") for golden in outcomes)
    print(f"{len(goldens)} templates x {len(conversations)} conversations: {len(outcomes) - errors} texts, {errors} errors")


if __name__ == "__main__":
    main()
