// What the thread of a DiskStore does with files.
#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "tier/disk_store.h"

namespace penstock::tier {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;

constexpr std::string_view kSuffix = ".kv";
constexpr uint64_t kMaxAside = 16;  // damaged files that are kept to look at

struct Found {
  BlockHeader header;
  uint64_t file_bytes = 0;
  fs::file_time_type used;
};

}  // namespace

fs::path DiskStore::path_of(const BlockName& name) const {
  const std::string digits = hex(name.key);
  return options_.directory / "blocks" / name.fingerprint / digits.substr(0, 2) /
         (digits + std::string(kSuffix));
}

uint64_t DiskStore::free_bytes() const {
  if (options_.free_bytes) return options_.free_bytes(options_.directory);
  std::error_code error;
  const fs::space_info space = fs::space(options_.directory, error);
  return error ? 0 : space.available;
}

/// Reads headers only: a damaged body shows when it is wanted.
void DiskStore::rescan() {
  std::vector<Found> found;
  std::vector<fs::path> partial;
  std::error_code error;
  for (fs::recursive_directory_iterator it(options_.directory / "blocks", error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const fs::path& path = it->path();
    if (path.extension() == base::kPartialSuffix) {
      partial.push_back(path);
      continue;
    }
    try {
      Found block{read_header(path), it->file_size(), it->last_write_time()};
      if (path != path_of(block.header.name))
        throw Error(Code::kCorrupt, "[tier.rescan] expected its own name");
      found.push_back(std::move(block));
    } catch (const Error& why) {
      set_aside(path, std::string(why.text()));
    } catch (const fs::filesystem_error& why) {
      base::log::warn("a cached block cannot be read: {}", why.what());
    }
  }
  for (const fs::path& path : partial) fs::remove(path, error);  // of a process that was killed
  std::ranges::sort(found, {}, &Found::used);
  const std::lock_guard lock(mutex_);
  for (const Found& block : found) index_.put(block.header.name, {block.file_bytes, block.header.groups()});
}

/// Removes the longest unused until a file of so many bytes under the name is within all bounds.
bool DiskStore::make_room(const BlockName& name, uint64_t bytes) {
  for (;;) {
    const uint64_t free = free_bytes();
    std::optional<BlockName> victim;
    {
      const std::lock_guard lock(mutex_);
      const DiskIndex::Entry* there = index_.find(name);
      const uint64_t replaced = there == nullptr ? 0 : there->file_bytes;
      const bool fits = index_.bytes() - replaced + bytes <= options_.max_bytes;
      if (fits && free >= bytes + options_.min_free_bytes) return true;
      victim = index_.oldest(std::chrono::system_clock::now());
      if (victim) ++stats_.evicted;
    }
    if (!victim) return false;
    remove_now(*victim);
  }
}

void DiskStore::write_now(const BlockName& name, const StoredBlock& block) {
  const uint64_t bytes = block.bytes() + kMaxHeaderBytes;  // the header's are fewer
  bool done = false;
  uint64_t file_bytes = 0;
  try {
    if (make_room(name, bytes)) {
      const fs::path path = path_of(name);
      fs::create_directories(path.parent_path());
      file_bytes = write_block(path, name.fingerprint, block);
      done = true;
    }
  } catch (const std::exception& error) {
    base::log::warn("a cached block was not written: {}", error.what());
    const std::lock_guard lock(mutex_);
    ++stats_.failed;
  }
  const std::lock_guard lock(mutex_);
  pending_.erase(name);
  if (!done) {
    ++stats_.dropped;
    return;
  }
  index_.put(name, {file_bytes, block.mask()});
  ++stats_.written;
}

std::optional<StoredBlock> DiskStore::read_now(const BlockName& name) {
  {
    const std::lock_guard lock(mutex_);
    if (index_.find(name) == nullptr) return std::nullopt;
  }
  const fs::path path = path_of(name);
  try {
    StoredBlock block = read_block(path, name);
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // the order of use outlives the process
    const std::lock_guard lock(mutex_);
    index_.touch(name);
    ++stats_.read;
    return block;
  } catch (const Error& error) {
    if (error.code() == Code::kCorrupt) {
      set_aside(path, std::string(error.text()));
    } else {
      base::log::warn("a cached block cannot be read: {}", error.text());
    }
  }
  const std::lock_guard lock(mutex_);
  index_.erase(name);
  return std::nullopt;
}

void DiskStore::remove_now(const BlockName& name) {
  std::error_code error;
  fs::remove(path_of(name), error);
  const std::lock_guard lock(mutex_);
  index_.erase(name);
}

/// Damaged files are kept to look at, a few of them.
void DiskStore::set_aside(const fs::path& path, const std::string& why) {
  base::log::warn("a cached block is damaged and set aside: {}: {}", path.string(), why);
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = stats_.corrupt++;
  }
  std::error_code error;
  const fs::path folder = options_.directory / "damaged";
  fs::create_directories(folder, error);
  if (!error) fs::rename(path, folder / (std::to_string(number % kMaxAside) + std::string(kSuffix)), error);
  if (error) fs::remove(path, error);
}

}  // namespace penstock::tier
