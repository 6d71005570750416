#!/usr/bin/env python3
"""Fails when a file of src/ includes a folder that tools/layers.toml does not allow, when a listed edge is unused,
or when a third-party header or a guarded word is used outside its folders."""
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(path, folders):
    """The longest listed folder that contains the path (api/openai belongs to api)."""
    parts = path.split("/")[:-1]
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in folders:
            return "/".join(parts[:n])
    return None


def check_file(name, text, rules, used):
    layers, problems = rules["layers"], []
    own = folder_of(name, layers)
    if own is None:
        return [f"{name}: its folder is not in tools/layers.toml"]
    for quote, header in INCLUDE.findall(text):
        target = folder_of(header, layers) if quote == '"' else None
        if target and target != own:
            used.add((own, target))
            if target not in layers[own]:
                problems.append(f"{name}: {own} may not include {target} ({header})")
        for prefix, allowed in rules["walls"].items():
            if header.startswith(prefix) and own not in allowed:
                problems.append(f"{name}: <{header}> belongs behind a wall: {', '.join(allowed) or 'nowhere yet'}")
    for word, allowed in rules["words"].items():
        if word in text and own not in allowed:
            problems.append(f"{name}: {word} is allowed only in {', '.join(allowed)}")
    return problems


def main():
    rules = tomllib.loads((ROOT / "tools/layers.toml").read_text())
    used, problems, present = set(), [], set()
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".h", ".cpp", ".cu", ".inc"):
            name = path.relative_to(ROOT / "src").as_posix()
            present.add(folder_of(name, rules["layers"]))
            problems += check_file(name, path.read_text(), rules, used)
    for folder, targets in rules["layers"].items():
        for target in targets:
            if folder in present and (folder, target) not in used:
                problems.append(f"tools/layers.toml: {folder} -> {target} is allowed but not used")
    print("\n".join(problems), file=sys.stderr) if problems else None
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
