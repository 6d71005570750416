// Uploaded files by their SHA-256: received piece by piece on the threads of `workers`, checked, and there
// under their digest only when they are whole. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/workers.h"

namespace penstock::library {

class Blobs {
 public:
  /// Makes the folder when it is first needed. `workers` must outlive the uploads.
  Blobs(std::filesystem::path folder, serve::Workers& workers);

  /// 64 hex digits out of "sha256:..." or "sha256-...". Throws Error(kInvalidRequest).
  static std::string digest_of(std::string_view text);

  std::filesystem::path path(const std::string& sha256) const { return folder_ / ("sha256-" + sha256); }
  bool has(const std::string& sha256) const;

  /// Removes it unless something else links to its bytes.
  void remove_if_unused(const std::string& sha256);

  /// Removes uploads that broke off, and those that no model came of for a day.
  void remove_leftovers();

  class Upload;
  /// `announced_bytes` must fit on the disk; 0: not known. `wake` is called when an upload that was full is
  /// ready again.
  std::shared_ptr<Upload> receive(std::string sha256, uint64_t announced_bytes, std::function<void()> wake);

 private:
  const std::filesystem::path folder_;
  serve::Workers& workers_;
  std::atomic<uint64_t> next_ = 0;
};

/// One upload. Its file goes away with it unless it was finished.
class Blobs::Upload {
 public:
  struct State;
  explicit Upload(std::shared_ptr<State> state);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  bool is_ready() const;
  /// Throws what went wrong with an earlier piece.
  void write(std::string piece);
  /// Calls `done` once, on a worker: null, or why the file is not there (Error(kInvalidRequest) for another
  /// digest).
  void finish(std::function<void(std::exception_ptr)> done);

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace penstock::library
