#!/usr/bin/env python3
"""Makes the settings struct and the option table of src/config, or the reference page, from src/config/settings.json.

gen_settings.py TABLE --struct FILE --table FILE     C++ (CMake runs this)
gen_settings.py TABLE --page FILE                    docs/reference/settings.md
"""
import argparse
import json
import re
import sys
from pathlib import Path

CPP_TYPE = {"string": "std::string", "path": "std::string", "secret": "std::string", "choice": "std::string",
            "int": "int64_t", "bytes": "int64_t", "number": "std::optional<double>", "bool": "bool", "list": "std::vector<std::string>"}
KEYS = {"name", "type", "default", "scope", "help", "min", "max", "multiple_of", "choices"}


def check(entry):
    """The table is read by people too: refuse what the C++ side would have to guess."""
    name = entry.get("name", "?")
    wrong = []
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        wrong.append("name must be snake_case")
    if set(entry) - KEYS:
        wrong.append(f"unknown keys {sorted(set(entry) - KEYS)}")
    if entry.get("type") not in CPP_TYPE:
        wrong.append(f"type must be one of {sorted(CPP_TYPE)}")
    if entry.get("scope") not in ("process", "model", "request"):
        wrong.append("scope must be process, model or request")
    if entry.get("type") in ("int", "bytes", "number") and not ({"min", "max"} <= set(entry)):
        wrong.append("a number needs min and max")
    elif entry.get("type") in ("int", "bytes") and not entry["min"] <= entry["default"] <= entry["max"]:
        wrong.append("the default is out of range")
    if entry.get("type") == "number" and entry["default"] != "":
        wrong.append("the default of a number is empty")
    if entry.get("type") == "choice" and entry["default"] not in entry.get("choices", []):
        wrong.append("the default is not one of the choices")
    if not entry.get("help") or entry["help"].endswith("."):
        wrong.append("help must be one line without a full stop")
    if wrong:
        sys.exit(f"settings.json: {name}: {'; '.join(wrong)}")


def text(value):
    return json.dumps(str(value).lower() if isinstance(value, bool) else str(value))


def initial(entry):
    kind, value = entry["type"], entry["default"]
    if kind == "bool":
        return " = true" if value else " = false"
    if kind in ("int", "bytes"):
        return f" = {value}"
    if kind == "list":
        return " = {" + ", ".join(json.dumps(v) for v in value.split(",") if v) + "}"
    return f" = {json.dumps(value)}" if value else ""  # a number's is empty: not set


def struct(settings):
    lines = ["// Made by tools/gen_settings.py from src/config/settings.json: every setting with its default. Plain data.",
             "#pragma once", "", "#include <cstdint>", "#include <optional>", "#include <string>", "#include <vector>", "",
             "namespace penstock::config {", "", "struct Settings {"]
    for s in settings:
        lines += [f"  /// {s['help']}", f"  {CPP_TYPE[s['type']]} {s['name']}{initial(s)};"]
    return "\n".join(lines + ["};", "", "}  // namespace penstock::config", ""])


def row(s):
    choices = ", ".join(json.dumps(c) for c in s.get("choices", []))
    return (f'    {{.name = "{s["name"]}", .flag = "--{s["name"].replace("_", "-")}", '
            f'.environment = "PENSTOCK_{s["name"].upper()}", .type = Type::k{s["type"].capitalize()}, '
            f'.default_text = {text(s["default"])}, .min = {s.get("min", 0)}, .max = {s.get("max", 0)}, '
            f'.multiple_of = {s.get("multiple_of", 0 if s["type"] == "number" else 1)}, .choices = {{{choices}}}, .scope = "{s["scope"]}", '
            f'.help = {json.dumps(s["help"])}, .member = &Settings::{s["name"]}}},')


def table(settings):
    return "\n".join(
        ["// Made by tools/gen_settings.py from src/config/settings.json.", '#include "config/settings.h"', "",
         "namespace penstock::config {", "", "std::span<const Option> options() {",
         "  static const std::vector<Option> rows = {", *[row(s) for s in settings], "  };", "  return rows;", "}", "",
         "}  // namespace penstock::config", ""])


def span(s):
    if "choices" in s:
        return ", ".join(s["choices"])
    return f"{s['min']} to {s['max']}" if "min" in s else ""


def page(settings):
    lines = ["# Settings", "", "Made by tools/gen_settings.py from src/config/settings.json. A flag wins over the environment, the environment",
             "over the configuration file, the file over the default. The file is `~/.config/penstock/config.json` or what",
             "`--config` names: one JSON object, with the names of the first column.", "",
             "| name | flag | environment | default | range | scope | meaning |", "|---|---|---|---|---|---|---|"]
    for s in settings:
        default = str(s["default"]).lower() if isinstance(s["default"], bool) else s["default"]
        lines.append(f"| {s['name']} | `--{s['name'].replace('_', '-')}` | `PENSTOCK_{s['name'].upper()}` | {default} | "
                     f"{span(s)} | {s['scope']} | {s['help']} |")
    return "\n".join(lines + [""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("json", type=Path)
    for output in ("struct", "table", "page"):
        parser.add_argument(f"--{output}", type=Path)
    args = parser.parse_args()
    settings = json.loads(args.json.read_text())["settings"]
    for s in settings:
        check(s)
    names = [s["name"] for s in settings]
    if len(set(names)) != len(names):
        sys.exit("settings.json: a name appears twice")
    for path, make in ((args.struct, struct), (args.table, table), (args.page, page)):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(make(settings))


if __name__ == "__main__":
    main()
