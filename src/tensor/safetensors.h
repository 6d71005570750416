// Reads and writes safetensors files. The reader trusts nothing in the header: after open() every entry lies
// inside the file, overlaps no other and has the byte count of its dtype and shape. Any thread.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/mapped_file.h"
#include "tensor/stored_tensor.h"

namespace penstock::tensor {

struct SafetensorsTable {
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses a whole file held in `bytes`; `what` names it in errors. Views point into `bytes`.
/// A tensor of an unknown dtype is listed with an empty `dtype`. Throws Error(kCorrupt).
SafetensorsTable parse_safetensors(std::span<const std::byte> bytes, const std::string& what);

/// One entry of a file's table before its bytes exist.
struct TableEntry {
  std::string name;
  std::string type;  // as safetensors names it: "BF16"
  Shape shape;
  uint64_t size_bytes = 0;
};

/// Everything in front of the tensors' bytes, which then follow each other in the order of the entries.
std::string safetensors_head(std::span<const TableEntry> entries,
                             const std::map<std::string, std::string>& metadata);

struct NamedView {
  std::string name;
  View view;
};

/// Writes the file beside `path` and renames it into place, so a reader never sees half of it. Throws
/// Error(kIo).
void write_safetensors(const std::filesystem::path& path, std::span<const NamedView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace penstock::tensor
