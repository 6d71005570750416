#include "store/archive.h"

#include <memory>
#include <string>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include "base/error.h"

namespace penstock::store {
namespace {

struct Close {
  void operator()(struct archive* handle) const { archive_read_free(handle); }
};
using Handle = std::unique_ptr<struct archive, Close>;

[[noreturn]] void damaged(const std::filesystem::path& path, struct archive* handle) {
  const char* reason = archive_error_string(handle);
  throw base::Error(base::Code::kCorrupt,
                    fmt::format("[store.archive] expected a whole zip or tar archive in {}; {}",
                                path.filename().string(), reason != nullptr ? reason : "it is not"));
}

bool is_member(std::string_view entry, std::string_view member) {
  while (entry.starts_with("./")) entry.remove_prefix(2);
  if (entry == member) return true;
  const auto slash = entry.find('/');
  return slash != std::string_view::npos && entry.substr(slash + 1) == member;
}

void copy(struct archive* handle, const std::filesystem::path& path,
          const std::function<void(std::string_view)>& sink) {
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const la_ssize_t got = archive_read_data(handle, buffer.data(), buffer.size());
    if (got < 0) damaged(path, handle);
    if (got == 0) return;
    sink({buffer.data(), static_cast<size_t>(got)});
  }
}

}  // namespace

void read_member(const std::filesystem::path& path, std::string_view member,
                 const std::function<void(std::string_view)>& sink) {
  const Handle handle(archive_read_new());
  archive_read_support_format_zip(handle.get());
  archive_read_support_format_tar(handle.get());
  archive_read_support_filter_gzip(handle.get());
  if (archive_read_open_filename(handle.get(), path.c_str(), 1 << 20) != ARCHIVE_OK)
    damaged(path, handle.get());
  struct archive_entry* entry = nullptr;
  for (;;) {
    const int status = archive_read_next_header(handle.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status < ARCHIVE_WARN) damaged(path, handle.get());
    const char* entry_name = archive_entry_pathname(entry);
    if (entry_name != nullptr && archive_entry_filetype(entry) == AE_IFREG && is_member(entry_name, member)) {
      copy(handle.get(), path, sink);
      return;
    }
  }
  throw base::Error(base::Code::kNotFound, fmt::format("[store.archive] expected {} in {}; it is not there",
                                                       member, path.filename().string()));
}

}  // namespace penstock::store
