// The folder that a conversion writes: an unfinished one never looks like a model, and the same conversion
// goes on where it stopped. A journal beside the unfinished files says whose they are and how far they are;
// it is locked, so that two programs do not write one folder. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "convert/layout.h"

namespace penstock::convert {

/// A small file of the model: its text, or where to copy it from.
struct SideFile {
  std::string name;  // relative to the folder
  std::string text;
  std::filesystem::path from;  // empty: `text`
};

class Destination {
 public:
  /// `identity` says what is converted and how; an unfinished conversion with another one is refused, and so
  /// is a finished model and any other folder with content. With `force` the finished model is replaced once
  /// the new one is whole, and an unfinished conversion with another identity is thrown away. Throws Error:
  /// kInvalidRequest for these, kIo when the disk is full or refuses.
  Destination(std::filesystem::path folder, const base::Json& identity, const Layout& layout, bool force);
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;
  ~Destination();

  /// Items that are whole from an earlier run.
  size_t done_items() const { return done_items_; }

  void write(size_t shard, uint64_t offset, std::span<const std::byte> bytes);

  /// The first `items` items are whole. Waits until the disk has them.
  void mark(size_t items);

  /// Gives the weight files their names, writes the side files and last config.json.
  void finish(const std::vector<SideFile>& files, const base::Json& config);

 private:
  void check_folder(bool force) const;
  void open_journal(const std::string& identity, bool force);
  void open_shards(bool fresh);
  void check_space() const;
  std::filesystem::path partial(const Shard& shard) const;
  void rename_shards();
  void sync_folder() const;

  std::filesystem::path folder_;
  const Layout& layout_;
  int journal_ = -1;
  std::vector<int> shards_;
  size_t done_items_ = 0;
};

}  // namespace penstock::convert
