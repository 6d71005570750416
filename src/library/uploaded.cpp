// Models made of uploaded files.
#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "library/library.h"
#include "models/model_files.h"
#include "pool/model_text.h"

namespace penstock::library {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;

constexpr std::array<std::string_view, 5> kExtensions = {".gguf", ".safetensors", ".json", ".jinja", ".txt"};

bool is_gguf(const EntryFile& file) {
  return file.name.ends_with(".gguf");
}

/// A plain name that belongs to a model: no folder, no code.
bool is_file_name(const std::string& name) {
  const bool is_plain =
      !name.empty() && name.size() <= 200 && name.front() != '.' &&
      name.find_first_of("/\\") == std::string::npos &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 127; });
  return is_plain && std::any_of(kExtensions.begin(), kExtensions.end(),
                                 [&](std::string_view end) { return name.ends_with(end); });
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(Code::kInvalidRequest, "[library.create] " + message, "files");
}

/// As a load would open them: what is wrong is said now.
void check_model(const fs::path& path) {
  const models::ModelFiles files = models::open_model(path);
  if (const tensor::Gguf* gguf = files.checkpoint->gguf()) {
    pool::read_model_text(*gguf);
  } else {
    pool::read_model_text(path, files.config);
  }
}

}  // namespace

fs::path Library::weights_folder(const Entry& entry) const {
  return options_.folder / "weights" / file_key(entry.name + "@" + std::to_string(entry.created_ms));
}

store::Located Library::locate_upload(const Entry& entry) const {
  const fs::path folder = weights_folder(entry);
  if (is_gguf(entry.files.front()))
    return {entry.name, folder / entry.files.front().name, store::Kind::kGgufFile, "", ""};
  return {entry.name, folder, store::Kind::kMlxDirectory, "", ""};
}

void Library::remove_weights(const Entry& entry) const {
  std::error_code error;
  fs::remove_all(weights_folder(entry), error);
}

void Library::check_files(const Entry& entry) const {
  std::set<std::string> names;
  for (const EntryFile& file : entry.files) {
    if (!is_file_name(file.name) || !names.insert(file.name).second) {
      refuse("expected plain names that end in .gguf, .safetensors, .json, .jinja or .txt; got " + file.name);
    }
    if (!blobs_.has(file.sha256))
      refuse("expected an upload of " + file.name + " with the digest sha256:" + file.sha256 + "; got none");
  }
  const bool has_gguf = std::any_of(entry.files.begin(), entry.files.end(), is_gguf);
  if (has_gguf && entry.files.size() > 1) refuse("expected a .gguf file alone; got others beside it");
}

void Library::link_files(const Entry& entry) const {
  const fs::path folder = weights_folder(entry);
  try {
    fs::create_directories(folder);
    for (const EntryFile& file : entry.files)
      fs::create_hard_link(blobs_.path(file.sha256), folder / file.name);
    check_model(locate_upload(entry).path);
  } catch (const std::exception& why) {
    remove_weights(entry);
    const auto* known = dynamic_cast<const Error*>(&why);
    refuse("expected the files of a model; " + (known != nullptr ? std::string(known->text()) : why.what()));
  }
}

}  // namespace penstock::library
