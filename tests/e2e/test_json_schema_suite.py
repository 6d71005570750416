"""The public JSON-Schema test suite (draft 2020-12, in jsonschema's source package) against grammars over smollm2's vocabulary:
most schemas compile, others are refused by the keyword's name; valid instances are accepted, invalid ones are not; what random
walks under the masks write is valid."""
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fetch_test_data  # noqa: E402

EXCEPTIONS = json.loads((ROOT / "tests/data/schema_exceptions.json").read_text())
LEAST_SHARE = 0.8


def variants(value):
    """The value with its keys in every order, if they are few: a grammar has the order of its schema."""
    if isinstance(value, dict):
        children = [[(key, v) for v in variants(item)] for key, item in value.items()]
        orders = itertools.permutations(children) if len(children) <= 4 else [children]
        return [dict(pairs) for order in orders for pairs in itertools.product(*order)][:200]
    if isinstance(value, list):
        return [list(items) for items in itertools.islice(itertools.product(*map(variants, value)), 50)]
    return [value]


def groups():
    for path in sorted(fetch_test_data.schema_suite_dir().glob("*.json")):
        for group in json.loads(path.read_text()):
            yield path.stem, group


@pytest.fixture(scope="module")
def tool(build_dir, smollm2, penstock):
    if not fetch_test_data.fetch(fetch_test_data.JSONSCHEMA):
        pytest.skip("the suite cannot be fetched now")
    directory = Path(json.loads(penstock("show", smollm2, "--json").stdout)["path"])
    process = subprocess.Popen([str(build_dir / "tests/e2e/grammar_tool"), str(directory)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(question):
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.wait()


@pytest.fixture(scope="module")
def answers(tool):
    """[(file, group, answer, the slice of answer["accepted"] of each test)]"""
    found = []
    for file, group in groups():
        texts, slices = [], []
        for test in group["tests"]:
            ways = [json.dumps(way, ensure_ascii=False) for way in variants(test["data"])]
            slices.append(slice(len(texts), len(texts) + len(ways)))
            texts += ways
        found.append((file, group, tool({"schema": group["schema"], "texts": texts, "walks": 3, "seed": 5}), slices))
    return found


def test_most_schemas_compile_and_others_are_refused_by_name(answers):
    compiled = [a for _, _, a, _ in answers if "error" not in a]
    print(f"{len(compiled)} of {len(answers)} schemas compile")
    for file, group, answer, _ in answers:
        if "error" in answer:
            named = re.findall(r"[$a-zA-Z]+", answer["error"].split("got:")[-1])
            assert set(named) & set(re.findall(r'"([$a-zA-Z]+)":', json.dumps(group["schema"]))) or re.search("nothing satisfies|Unsatisfiable", answer["error"]), \
                (file, group["description"], answer["error"])
    assert len(compiled) >= LEAST_SHARE * len(answers)


def test_valid_instances_are_accepted_and_invalid_ones_are_not(answers):
    expected = {(e["file"], e["group"], e["test"]): e["reason"] for e in EXCEPTIONS}
    wrong, n = set(), 0
    for file, group, answer, slices in answers:
        if "error" in answer:
            continue
        for test, part in zip(group["tests"], slices):
            n += 1
            if any(answer["accepted"][part]) != test["valid"]:
                wrong.add((file, group["description"], test["description"]))
    print(f"{n} instances, {len(wrong)} judged otherwise")
    assert wrong == set(expected), (sorted(wrong - set(expected)), sorted(set(expected) - wrong))


def test_random_walks_are_valid(answers):
    ended = unended = masks = us = longest = 0
    for file, group, answer, _ in answers:
        if "error" in answer:
            continue
        masks, us, longest = masks + answer["masks"], us + answer["mask_us"], max(longest, answer["longest_mask_us"])
        validator = jsonschema.Draft202012Validator(group["schema"])
        for text in answer["walks"]:
            if text is None:
                unended += 1
                continue
            ended += 1
            assert validator.is_valid(json.loads(text)), (file, group["description"], text)
    print(f"{ended} walks ended, {unended} did not; {masks} masks, mean {us / masks:.1f} us, longest {longest:.0f} us")
    assert ended > 3 * unended
