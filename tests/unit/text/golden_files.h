// The hashes and the third-party files that the golden tests of this folder use.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <openssl/evp.h>

#include "base/json.h"

namespace penstock::text::testing {

/// The first 16 hexadecimal digits of the SHA-256 of `text`.
inline std::string golden_hash(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string hex;
  for (size_t i = 0; i < 8; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", digest[i]);
    hex += pair;
  }
  return hex;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::filesystem::path data_dir() {
  return std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/data";
}

inline base::Json read_json(const std::filesystem::path& path) {
  return base::parse_json(read_file(path), path.string());
}

/// Where tools/fetch_test_data.py unpacks; may not exist.
inline std::filesystem::path fetched_models_dir() {
  const char* chosen = std::getenv("PENSTOCK_TEST_DATA");
  const char* home = std::getenv("HOME");
  const std::filesystem::path root =
      chosen != nullptr ? std::filesystem::path(chosen)
                        : std::filesystem::path(home != nullptr ? home : "") / ".cache/penstock/test-data";
  return root / "llama_cpp_python-0.3.36/vendor/llama.cpp/models";
}

}  // namespace penstock::text::testing
