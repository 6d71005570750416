#!/usr/bin/env python3
"""Fails when a source file, a function or a parameter list of src/ or rust/ is over the project's size limits."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {".cpp": 800, ".cu": 800, ".h": 300, ".rs": 800}
KERNEL_LIMIT, FUNCTION_LIMIT, PARAMETER_LIMIT, FAMILY_LIMIT = 1000, 120, 6, 250
# A function head at namespace level: no indentation, ends with an opening brace.
HEAD = re.compile(r"^[A-Za-z_][^;=]*?([A-Za-z_~][\w:~]*)\(([^;{}]*)\)[^;{}()]*\{", re.MULTILINE)


def file_limit(path):
    name = path.as_posix()
    if "/exec/" in name and path.suffix in (".cpp", ".cu"):
        return KERNEL_LIMIT
    if "/models/families/" in name:
        return FAMILY_LIMIT
    return LIMITS[path.suffix]


def parameters(text):
    depth, count = 0, 1 if text.strip() and text.strip() != "void" else 0
    for c in text:
        depth += c in "<([{"
        depth -= c in ">)]}"
        count += c == "," and depth == 0
    return count


def functions(text):
    for m in HEAD.finditer(text):
        depth, i = 1, m.end()
        while i < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
        yield m.group(1), text.count("\n", m.start(), i) + 1, parameters(m.group(2))


def main():
    problems = []
    files = [p for d in ("src", "rust/textkit/src") for p in sorted((ROOT / d).rglob("*")) if p.suffix in LIMITS]
    for path in files:
        text = path.read_text()
        name, lines = path.relative_to(ROOT), text.count("\n")
        if lines > file_limit(path):
            problems.append(f"{name}: {lines} lines, the limit is {file_limit(path)}")
        if path.suffix != ".rs":
            for function, length, count in functions(text):
                if function in ("if", "for", "while", "switch", "namespace"):
                    continue
                if length > FUNCTION_LIMIT:
                    problems.append(f"{name}: {function} has {length} lines, the limit is {FUNCTION_LIMIT}")
                if count > PARAMETER_LIMIT:
                    problems.append(f"{name}: {function} has {count} parameters, the limit is {PARAMETER_LIMIT}")
    print("\n".join(problems), file=sys.stderr) if problems else None
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
