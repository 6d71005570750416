// The weights of one model: a directory of safetensors files or one GGUF file, as one table of names over
// mapped files. Immutable once open, shared by every view into it; safe from any thread.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/gguf.h"
#include "tensor/mapped_file.h"
#include "tensor/stored_tensor.h"

namespace penstock::tensor {

/// A tensor with its own memory, for checkpoints made in a program.
struct OwnedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;
};

class Checkpoint {
 public:
  /// A directory (model.safetensors.index.json, else model*.safetensors, else one *.gguf) or one .gguf or
  /// .safetensors file. Throws Error naming the file: kNotFound for no weights or a missing shard, kCorrupt
  /// for damage, for a tensor that the index promises and no shard has, and for a name in two shards.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& path);

  /// The same with the model.safetensors of folders below it, whose tensors are named "<folder>/<name>".
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& path,
                                                std::span<const std::string> folders);

  static std::shared_ptr<const Checkpoint> in_memory(std::vector<OwnedTensor> tensors);

  /// Null when there is no such tensor.
  const StoredTensor* find(std::string_view name) const;
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }

  /// The GGUF metadata; null for safetensors.
  const Gguf* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }

  /// Where the weights come from, for messages.
  const std::filesystem::path& path() const { return path_; }

  /// Lets go of the memory of these bytes once they are packed; reading them again brings them back.
  void drop(std::span<const std::byte> bytes) const;

 private:
  Checkpoint() = default;
  void open_files();
  void add_file(const std::filesystem::path& path, const std::string& prefix = {});
  void add(StoredTensor tensor, const std::string& file);
  void open_index(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<OwnedTensor> owned_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::optional<Gguf> gguf_;
};

}  // namespace penstock::tensor
