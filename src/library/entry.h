// What requests made of models and what outlives the process: one small JSON file for each. Written whole and
// on the device before it has its name. Any thread; the caller keeps writers of one name apart.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace penstock::library {

/// What a named model says for requests that do not.
struct Preset {
  std::string system;
  base::Json parameters;  // object of options, or null
  std::vector<std::string> licences;
};

struct EntryFile {
  std::string name;    // "model.gguf"
  std::string sha256;  // of the upload that it is
};

/// A model with files of its own, uploaded ones or those of the store, or one more name of another model.
struct Entry {
  std::string name;              // without ":latest"
  std::string base;              // id of the model that it is another name of; empty: its own
  std::string stored;            // the store's name of its files, or of its base's; empty: not the store's
  std::vector<EntryFile> files;  // uploaded
  Preset preset;
  int64_t created_ms = 0;
};

/// All entries of the folder; a file that cannot be read is left out, with a warning.
std::vector<Entry> read_entries(const std::filesystem::path& folder);

/// Throws Error(kIo).
void write_entry(const std::filesystem::path& folder, const Entry& entry);

void remove_entry(const std::filesystem::path& folder, const std::string& name);

/// A name for files and folders that belong to the model of that name.
std::string file_key(const std::string& name);

}  // namespace penstock::library
