#include "api/anthropic/signing_key.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"

namespace penstock::api::anthropic {
namespace {

using base::Code;
using base::Error;

constexpr size_t kFileKeyBytes = 32;

[[noreturn]] void fail(const std::filesystem::path& file, const char* why) {
  throw Error(Code::kIo,
              "[anthropic.signing_key] expected to keep a key in " + file.string() + "; got " + why);
}

std::optional<std::string> read_key(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string key{std::istreambuf_iterator<char>(in), {}};
  if (base::is_hex(key, 2 * kFileKeyBytes)) return key;
  throw Error(Code::kCorrupt, "[anthropic.signing_key] expected a key of " +
                                  std::to_string(2 * kFileKeyBytes) + " hexadecimal digits in " +
                                  file.string() + "; got something else: remove it to get a new one");
}

void write_for_owner(const std::filesystem::path& file, const std::string& text) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) fail(file, std::strerror(errno));
  const auto written = ::write(descriptor, text.data(), text.size());
  const bool is_kept = ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (written != static_cast<ssize_t>(text.size()) || !is_kept) fail(file, "a write that failed");
}

}  // namespace

std::string kept_signing_key(const std::filesystem::path& file) {
  if (const auto key = read_key(file)) return *key;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) fail(file, error.message().c_str());
  const std::filesystem::path draft = file.string() + "." + base::random_hex(8);
  write_for_owner(draft, base::random_hex(kFileKeyBytes));
  // Linked, not renamed: where another server was faster, its key is the one.
  const int linked = ::link(draft.c_str(), file.c_str());
  const int why = errno;
  std::filesystem::remove(draft, error);
  if (linked != 0 && why != EEXIST) fail(file, std::strerror(why));
  const auto key = read_key(file);
  if (!key) fail(file, "a file that cannot be read");
  return *key;
}

}  // namespace penstock::api::anthropic
