#include "convert/destination.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace penstock::convert {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;

constexpr const char* kJournal = "convert.incomplete";
constexpr const char* kIndex = "model.safetensors.index.json";

Error fail(Code code, const std::string& expected, const std::string& got) {
  return Error(code, "[convert.destination] expected " + expected + "; got " + got);
}

Error io_error(const std::string& action, const fs::path& path) {
  const int reason = errno;
  const std::string more = reason == ENOSPC || reason == EDQUOT || reason == EFBIG
                               ? " (the same command goes on once there is room)"
                               : "";
  return fail(Code::kIo, "to " + action + " " + path.string(), std::strerror(reason) + more);
}

void write_all(int fd, std::span<const std::byte> bytes, uint64_t offset, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw io_error("write", path);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void sync(int fd, const fs::path& path) {
  if (::fsync(fd) != 0) throw io_error("write", path);
}

int open_file(const fs::path& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC, 0644);
}

/// Written beside its name, on the disk, then renamed.
void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  fs::path partial = path;
  partial += ".incomplete";
  const int fd = open_file(partial, O_WRONLY | O_CREAT | O_TRUNC);
  if (fd < 0) throw io_error("create", partial);
  try {
    write_all(fd, bytes, 0, partial);
    sync(fd, partial);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  if (::rename(partial.c_str(), path.c_str()) != 0) throw io_error("name", path);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw fail(Code::kIo, "to read " + path.string(), "an error of the system");
  return text.str();
}

bool is_weight_file(const std::string& name) {
  return name == kIndex || (name.starts_with("model") && name.ends_with(".safetensors"));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Destination::Destination(fs::path folder, const base::Json& identity, const Layout& layout, bool force)
    : folder_(std::move(folder)), layout_(layout) {
  try {
    check_folder(force);
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw fail(Code::kIo, "to create the folder " + folder_.string(), error.message());
    open_journal(identity.dump(), force);
  } catch (...) {
    if (journal_ >= 0) ::close(journal_);
    throw;
  }
}

Destination::~Destination() {
  for (const int fd : shards_) {
    if (fd >= 0) ::close(fd);
  }
  if (journal_ >= 0) ::close(journal_);
}

fs::path Destination::partial(const Shard& shard) const {
  return folder_ / (shard.name + ".incomplete");
}

void Destination::check_folder(bool force) const {
  std::error_code error;
  if (!fs::exists(folder_, error) || fs::exists(folder_ / kJournal, error)) return;
  if (!fs::is_directory(folder_, error))
    throw fail(Code::kInvalidRequest, "a folder as destination", "the file " + folder_.string());
  if (fs::is_empty(folder_, error)) return;
  const bool model = fs::exists(folder_ / "config.json", error);
  if (model && force) return;
  if (model) {
    throw fail(Code::kInvalidRequest, "a new or empty folder as destination (--force replaces a model)",
               "the finished model " + folder_.string());
  }
  throw fail(Code::kInvalidRequest, "a new or empty folder as destination",
             folder_.string() + ", which holds other files");
}

/// First line: the identity. Each further line: how many items were whole then.
void Destination::open_journal(const std::string& identity, bool force) {
  const fs::path path = folder_ / kJournal;
  journal_ = open_file(path, O_RDWR | O_CREAT | O_APPEND);
  if (journal_ < 0) throw io_error("create", path);
  if (::flock(journal_, LOCK_EX | LOCK_NB) != 0)
    throw fail(Code::kInvalidRequest, "a folder that nobody writes",
               folder_.string() + ", which another program is writing");
  std::string text = read_file(path);
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);  // a torn last line
  const std::string known = text.substr(0, text.find('\n'));
  const bool same = known == identity;
  if (!text.empty() && !same && !force) {
    throw fail(Code::kInvalidRequest,
               "the source and options of the unfinished conversion in " + folder_.string() +
                   " (--force begins anew), " + known,
               identity);
  }
  if (!same) text = identity + "\n";
  if (::ftruncate(journal_, 0) != 0) throw io_error("write", path);
  const bool fresh = text.size() == identity.size() + 1;
  const size_t last = text.find_last_of('\n', text.size() - 2);
  if (!fresh) std::from_chars(text.data() + last + 1, text.data() + text.size(), done_items_);
  if (::write(journal_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw io_error("write", path);
  open_shards(fresh);
}

void Destination::open_shards(bool fresh) {
  if (fresh) check_space();
  for (const Shard& shard : layout_.shards) {
    const int fd = open_file(partial(shard), O_RDWR | (fresh ? O_CREAT | O_TRUNC : 0));
    shards_.push_back(fd);
    // Without its unfinished name a shard was whole and had been given its own.
    if (fd < 0 && (fresh || errno != ENOENT || done_items_ != layout_.places.size()))
      throw io_error("open", partial(shard));
    if (fresh) write_all(fd, bytes_of(shard.head), 0, partial(shard));
  }
}

void Destination::check_space() const {
  uint64_t needed = 0;
  for (const Shard& shard : layout_.shards) needed += shard.size_bytes;
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  if (error || space.available >= needed) return;
  throw fail(Code::kIo, std::to_string(needed / 1000000) + " MB of free space for " + folder_.string(),
             std::to_string(space.available / 1000000) + " MB");
}

void Destination::write(size_t shard, uint64_t offset, std::span<const std::byte> bytes) {
  write_all(shards_[shard], bytes, offset, partial(layout_.shards[shard]));
}

void Destination::mark(size_t items) {
  if (items <= done_items_) return;
  const size_t from = layout_.places[done_items_].shard;
  for (size_t s = from; s <= layout_.places[items - 1].shard; ++s)
    sync(shards_[s], partial(layout_.shards[s]));
  const std::string line = std::to_string(items) + "\n";
  if (::write(journal_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw io_error("write", folder_ / kJournal);
  sync(journal_, folder_ / kJournal);
  done_items_ = items;
}

void Destination::rename_shards() {
  std::set<std::string> names;
  for (const Shard& shard : layout_.shards) names.insert(shard.name);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (is_weight_file(name) && !names.contains(name)) fs::remove(entry.path(), error);
  }
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (shards_[s] < 0) continue;
    const fs::path name = folder_ / layout_.shards[s].name;
    if (::rename(partial(layout_.shards[s]).c_str(), name.c_str()) != 0) throw io_error("name", name);
  }
}

void Destination::finish(const std::vector<SideFile>& files, const base::Json& config) {
  std::error_code error;
  fs::remove(folder_ / "config.json", error);  // of a model that is replaced
  rename_shards();
  if (!layout_.index.empty()) write_file(folder_ / kIndex, bytes_of(layout_.index));
  for (const SideFile& file : files) {
    const fs::path path = folder_ / file.name;
    fs::create_directories(path.parent_path(), error);
    write_file(path, bytes_of(file.from.empty() ? file.text : read_file(file.from)));
  }
  write_file(folder_ / "config.json", bytes_of(config.dump(2) + "\n"));
  sync_folder();
  fs::remove(folder_ / kJournal, error);
}

void Destination::sync_folder() const {
  const int fd = open_file(folder_, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);  // not every file system can; the names are right either way
  ::close(fd);
}

}  // namespace penstock::convert
