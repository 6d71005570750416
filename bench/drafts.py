"""Speculation on real weights: every prompt of the sets with each kind of drafts in turn, on one server.

    python3 bench/drafts.py --penstock build/penstock --model MODEL --draft-model SMALLER --out drafts.jsonl
    python3 bench/drafts.py --report drafts.jsonl

Prints a table of the code edits (tokens a second of decoding without drafts, and how many times as fast each kind is), the same for prose with the
95 % interval of the interleaved ratios, and whether every text was the plain one. Times are the receipts' decode times: the prompt is not in them (it
is computed once for all kinds), what a draft model computes of it while the answer runs is. Greedy, one request at a time.
"""
import argparse
import http.client
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

from load_client import Server

PROMPTS = Path(__file__).resolve().parent / "prompts"
# Kinds of drafts: fields of the request.
KINDS = {
    "plain": {"max_draft_tokens": 0},
    "ngram": {"draft_source": "ngram"},
    "suffix": {"draft_source": "suffix"},
    "model": {"draft_source": "model"},
    "auto": {"draft_source": "auto"},
}
# Two-sided 95 % points of Student's t by degrees of freedom; the normal one beyond.
T95 = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07,
       2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04]


def edit_prompt(edit):
    return (f"{edit['instruction']}\nAnswer with the whole changed code in one code block and nothing else.\n\n"
            f"```{edit['language']}\n{edit['code']}```")


def read_set(name):
    lines = [json.loads(line) for line in (PROMPTS / name).read_text(encoding="utf-8").splitlines()]
    return [(entry["id"], entry.get("prompt") or edit_prompt(entry)) for entry in lines]


def ask(server, prompt, tokens, fields):
    """Text, seconds of decoding for each token, and the receipt."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": tokens, **fields}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    if "choices" not in answer:
        sys.exit(f"the server refused a prompt: {answer}")
    n = answer["usage"]["completion_tokens"]
    receipt = answer["penstock"]
    return answer["choices"][0]["message"]["content"], receipt["decode_ms"] / 1000 / max(1, n - 1), n, receipt


def measure(server, kinds, prompt, tokens, turn):
    """One answer of each kind, the order turning from prompt to prompt. The first one computes the prompt."""
    server_asks = {kind: KINDS[kind] for kind in kinds[turn % len(kinds):] + kinds[:turn % len(kinds)]}
    return {kind: ask(server, prompt, tokens, fields) for kind, fields in server_asks.items()}


def interval(values):
    """Mean and half of the 95 % interval of ratios, on their logarithms."""
    logs = [math.log(v) for v in values]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = T95[min(len(logs) - 2, len(T95) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def run_set(server, kinds, prompts, arguments, rounds, out):
    """A row for each prompt and round, which is appended to `out` as a line of JSON too."""
    rows = []
    for turn, name, prompt in prompts:
        for n in range(rounds):
            got = measure(server, kinds, prompt, arguments.tokens, turn + n)
            text = got["plain"][0]
            row = {"id": name, "round": n, "kinds": {
                kind: {"s": seconds, "tokens": count, "drafted": receipt.get("drafted", 0), "accepted": receipt.get("accepted", 0),
                       "same": answer == text}
                for kind in kinds for answer, seconds, count, receipt in [got[kind]]}}
            rows.append(row)
            print(json.dumps(row), file=out, flush=True)
            if arguments.verbose:
                plain = row["kinds"]["plain"]["s"]
                print(name, *(f"{k} {plain / v['s']:.2f}{'' if v['same'] else ' OTHER TEXT'}" for k, v in row["kinds"].items()), file=sys.stderr, flush=True)
    return rows


def table(rows, kinds):
    lines = ["| prompt | tokens | plain, tokens/s | " + " | ".join(kinds) + " | accepted of drafted (last) |", "|---" * (len(kinds) + 4) + "|"]
    totals = {kind: 0.0 for kind in ["plain", *kinds]}
    for row in rows:
        k = row["kinds"]
        for kind in totals:
            totals[kind] += k[kind]["s"] * k["plain"]["tokens"]
        last = k[kinds[-1]]
        lines.append(f"| {row['id']} | {k['plain']['tokens']} | {1 / k['plain']['s']:.1f} | " +
                     " | ".join(f"{k['plain']['s'] / k[kind]['s']:.2f}" for kind in kinds) + f" | {last['accepted']} of {last['drafted']} |")
    lines.append("| **all, by time** | | | " + " | ".join(f"**{totals['plain'] / totals[kind]:.2f}**" for kind in kinds) + " | |")
    return "\n".join(lines)


def report(code, prose, kinds):
    others = [kind for kind in kinds if kind != "plain"]
    rows = code + prose
    wrong = [f"{row['id']} {kind}" for row in rows for kind in others if not row["kinds"][kind]["same"]]
    if code:
        print(table(code, others))
        for kind in others:
            mean, low, high = interval([row["kinds"]["plain"]["s"] / row["kinds"][kind]["s"] for row in code])
            print(f"code edits, {kind}: {mean:.2f} times (geometric mean; 95 % interval {low:.2f} to {high:.2f})")
    for kind in others if prose else []:
        mean, low, high = interval([row["kinds"]["plain"]["s"] / row["kinds"][kind]["s"] for row in prose])
        print(f"prose, {kind}: {mean:.3f} times, 95 % interval {low:.3f} to {high:.3f} of {len(prose)} pairs")
    print(f"the same text in {len(rows) * len(others) - len(wrong)} of {len(rows) * len(others)} pairs", *wrong)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--penstock", default="build/penstock")
    parser.add_argument("--model", help="of the server; not needed with --report")
    parser.add_argument("--draft-model", default="")
    parser.add_argument("--kinds", default="plain,ngram,model,auto", help=f"of {', '.join(KINDS)}; plain is compared with")
    parser.add_argument("--max-draft-tokens", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=224)
    parser.add_argument("--code", default="0:99", help="FIRST:END of the code edits")
    parser.add_argument("--prose", default="0:99", help="FIRST:END of the prose prompts")
    parser.add_argument("--prose-rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further prompt after so long")
    parser.add_argument("--serve-args", default="", help="more arguments of the server")
    parser.add_argument("--out", type=Path, help="JSON lines of what was measured are appended here")
    parser.add_argument("--report", type=Path, help="only print what such a file says")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if arguments.report:
        rows = [json.loads(line) for line in arguments.report.read_text().splitlines()]
        prose = [row for row in rows if row["id"].startswith("prose")]
        return report([row for row in rows if row not in prose], prose, list(rows[0]["kinds"]))
    pick = lambda name, cut: read_set(name)[slice(*(int(n) for n in cut.split(":")))]  # noqa: E731
    options = ["--context-length", "4096", "--max-num-seqs", "2", "--max-draft-tokens", str(arguments.max_draft_tokens), *arguments.serve_args.split()]
    if arguments.draft_model:
        options += ["--draft-model", arguments.draft_model]
    until = time.monotonic() + arguments.seconds
    rows = {"code": [], "prose": []}
    sets = (("code", pick("code_edits.jsonl", arguments.code), 1), ("prose", pick("prose.jsonl", arguments.prose), arguments.prose_rounds))
    with Server(arguments.penstock, arguments.model, options) as server, (arguments.out.open("a") if arguments.out else tempfile.TemporaryFile("w")) as out:
        for name, prompts, rounds in sets:
            for turn, (prompt_id, prompt) in enumerate(prompts):
                if time.monotonic() > until:
                    print(f"{name}: stopped before {prompt_id}", file=sys.stderr)
                    break
                rows[name] += run_set(server, kinds, [(turn, prompt_id, prompt)], arguments, rounds, out)
    return report(rows["code"], rows["prose"], kinds)


if __name__ == "__main__":
    sys.exit(main())
