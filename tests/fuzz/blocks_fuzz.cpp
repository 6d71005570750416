// Cached blocks and sessions on the disk: what is read is whole, and what was written; all else is refused or
// set aside. The first byte says what the bytes are and which of the digests and keys that guard them are
// made right, so that what lies behind a digest is reached.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "base/digest.h"
#include "base/log.h"
#include "fuzz/scratch_file.h"
#include "fuzz/target.h"
#include "tier/block_file.h"
#include "tier/session_files.h"

namespace penstock::fuzz {
namespace {

constexpr uint8_t kSession = 1, kFixBody = 2, kFixKey = 4, kFixHeader = 8;

using base::sha256;

// Of the file's layout (tier/block_file.cpp).
constexpr size_t kSizeAt = 8, kCountsAt = 12, kParentAt = 52, kKeyAt = 68, kTokensAt = 84, kDigits = 64;

template <class T>
T at(const std::string& file, size_t offset) {
  T value{};
  if (offset + sizeof value <= file.size()) std::memcpy(&value, &file[offset], sizeof value);
  return value;
}

std::string made_right(std::string file, uint8_t how) {
  const uint64_t header = at<uint32_t>(file, kSizeAt), tokens = at<uint32_t>(file, kCountsAt);
  if (header > file.size() || header < kTokensAt + 2 * kDigits) return file;
  if ((how & kFixBody) != 0) {
    file.replace(header - 2 * kDigits, kDigits, sha256(std::string_view(file).substr(header)));
  }
  if ((how & kFixKey) != 0 && kTokensAt + tokens * 4 <= header) {
    std::vector<int32_t> ids(tokens);
    if (tokens > 0) std::memcpy(ids.data(), &file[kTokensAt], tokens * 4);
    const cache::PrefixKey parent = {at<uint64_t>(file, kParentAt), at<uint64_t>(file, kParentAt + 8)};
    const cache::PrefixKey key = cache::extend(parent, ids);
    std::memcpy(&file[kKeyAt], &key.high, 8);
    std::memcpy(&file[kKeyAt + 8], &key.low, 8);
  }
  if ((how & kFixHeader) != 0) {
    file.replace(header - kDigits, kDigits, sha256(std::string_view(file).substr(0, header - kDigits)));
  }
  return file;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void read_block_file(const std::string& file) {
  const Exact exact(file);
  const auto header = tier::parse_header(std::as_bytes(std::span(exact.bytes())), file.size());
  expect(!header.tokens.empty() && header.body_bytes() < file.size(), "a header of more than its file");
  static ScratchFile scratch(".block"), copy(".copy");
  scratch.write(file);
  expect(tier::read_header(scratch.path()).name == header.name, "another header in a file than in its bytes");
  const tier::StoredBlock block = tier::read_block(scratch.path(), header.name);
  expect(block.bytes() == header.body_bytes() && block.mask() == header.groups(),
         "a block unlike its header");
  const uint64_t written = tier::write_block(copy.path(), header.name.fingerprint, block);
  expect(written == file.size() && content(copy.path()) == file, "a block that is written as another file");
}

/// A folder for sessions that is empty before every input.
void read_session_file(const std::string& file) {
  static const ScratchFolder folder("sessions");
  const tier::SessionFiles sessions(folder.path());
  const auto inside = folder.path() / "sessions";
  for (const auto& entry : std::filesystem::directory_iterator(inside)) std::filesystem::remove(entry.path());
  std::ofstream(inside / "0.session", std::ios::binary) << file;
  const auto records = sessions.read_all();
  expect(records.size() <= 1, "two sessions in a file");
  const auto left = std::distance(std::filesystem::directory_iterator(inside), {});
  expect(left == 1, "a session file that is lost");
  if (records.empty()) return;
  sessions.write(records.front());
  const auto again = sessions.read_all();
  expect(std::find(again.begin(), again.end(), records.front()) != again.end(),
         "a session that is not read as written");
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  const ScratchFile scratch(".seed");
  for (const size_t groups : {1, 3}) {
    tier::StoredBlock block;
    block.parent = {groups, 2};
    for (int32_t i = 0; i < 8; ++i) block.tokens.push_back(i * 1000);
    block.key = cache::extend(block.parent, block.tokens);
    for (size_t g = 0; g < groups; ++g)
      block.groups.emplace_back(g == 1 ? 0 : 100, static_cast<std::byte>(g));
    tier::write_block(scratch.path(), std::string(32, 'a'), block);
    for (const uint8_t how : {0, kFixHeader + 0, kFixBody + kFixKey + kFixHeader}) {
      out.push_back(static_cast<char>(how) + content(scratch.path()));
    }
  }
  const std::string session =
      R"({"id":"s","model":"m","fingerprint":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","block_tokens":16,)"
      R"("salt":3,"tokens":[1,2,3],"created_ms":1,"used_ms":2,"pinned_until_ms":0,"parked":true})";
  for (const uint8_t how : {kSession + 0, kSession + kFixHeader}) {
    out.push_back(static_cast<char>(how) + sha256(session) + "\n" + session);
  }
  return out;
}

std::vector<std::string> words() {
  return {"PNSTKKV1",
          std::string("\0\4\0\0", 4),
          std::string("\x40\0\0\0", 4),
          "\"tokens\":[",
          "null",
          "-1",
          "1e300",
          "1.5",
          "\"id\":\"\"",
          "\xFF",
          "\\u0000"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::fuzz;
  static const bool is_quiet = (penstock::base::configure_log("off"), true);
  if (size == 0 || !is_quiet) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & kSession) == 0) {
    refusable([&] { read_block_file(made_right(file, data[0])); });
    return 0;
  }
  if ((data[0] & kFixHeader) != 0 && file.size() > kDigits + 1) {
    file.replace(0, kDigits, sha256(std::string_view(file).substr(kDigits + 1)));
  }
  refusable([&] { read_session_file(file); });
  return 0;
}
