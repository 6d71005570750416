#include "store/transfer.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "http/uri.h"

namespace penstock::store {
namespace {

namespace fs = std::filesystem;

constexpr int kLongestDelayMs = 8000;
constexpr int kLongestRetryAfterMs = 60000;
constexpr uint64_t kSpareBytes = 64ULL << 20;

[[noreturn]] void cancelled(std::string_view what) {
  throw base::Error(base::Code::kCancelled,
                    fmt::format("[store.pull] expected to finish {}; was stopped", what));
}

void wait(int delay_ms, std::string_view what, const Watch& watch) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(delay_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (watch.cancelled()) cancelled(what);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(20, delay_ms)));
  }
}

bool is_worth_retrying(int status) {
  return status == 408 || status == 429 || status >= 500;
}

bool is_worth_retrying(const base::Error& error) {
  return error.code() == base::Code::kIo || error.code() == base::Code::kTimeout;
}

int retry_after_ms(const http::Hop& hop) {
  const std::string_view text = hop.header("Retry-After");
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::clamp(seconds, 0, kLongestRetryAfterMs / 1000) * 1000;
}

/// Counts attempts that brought nothing and waits between them.
class Attempts {
 public:
  Attempts(const RetryPolicy& policy, std::string_view what, const Watch& watch)
      : policy_(policy), what_(what), watch_(watch), delay_ms_(policy.first_delay_ms) {}

  /// Waits, or gives up by throwing `error`.
  void failed(const base::Error& error, int server_delay_ms, bool made_progress) {
    if (made_progress) {
      used_ = 0;
      delay_ms_ = policy_.first_delay_ms;
    }
    if (++used_ >= policy_.attempts) throw error;
    wait(std::max(delay_ms_, server_delay_ms), what_, watch_);
    delay_ms_ = std::min(delay_ms_ * 2, kLongestDelayMs);
  }

 private:
  const RetryPolicy& policy_;
  std::string_view what_;
  const Watch& watch_;
  int delay_ms_;
  int used_ = 0;
};

/// A disk that refuses is not cured by asking the server again.
class DiskError : public base::Error {
 public:
  explicit DiskError(const fs::path& path)
      : Error(
            base::Code::kIo,
            fmt::format("[store.pull] expected to write {}; the disk refused (is it full?)", path.string())) {
  }
};

/// kIo for what another try may change.
base::Error status_error(const http::Hop& hop, std::string_view what) {
  const auto code = hop.status == 401 || hop.status == 403               ? base::Code::kUnauthorized
                    : hop.status == 404 || hop.status == 410             ? base::Code::kNotFound
                    : is_worth_retrying(hop.status) || hop.status == 416 ? base::Code::kIo
                                                                         : base::Code::kUnavailable;
  return base::Error(code, fmt::format("[store.pull] expected status 200 for {}; got {}", what, hop.status));
}

base::Error short_error(const Transfer& transfer, uint64_t size_bytes) {
  return base::Error(base::Code::kIo,
                     fmt::format("[store.pull] expected {} bytes of {}; the connection ended at {}",
                                 transfer.size_bytes, transfer.what, size_bytes));
}

/// Runs `work`; false, with the exception kept, when it throws.
template <class Work>
bool guarded(std::exception_ptr& failure, Work work) {
  try {
    work();
    return true;
  } catch (...) {
    failure = std::current_exception();
    return false;
  }
}

/// The unfinished file with the digest of what is in it.
class Unfinished {
 public:
  explicit Unfinished(const Transfer& transfer) : transfer_(transfer) {
    std::error_code error;
    fs::create_directories(transfer.incomplete.parent_path(), error);
    restart(fs::exists(transfer.incomplete) ? fs::file_size(transfer.incomplete) : 0);
  }

  uint64_t size() const { return size_; }

  /// Keeps the first `keep` bytes and digests them.
  void restart(uint64_t keep) {
    file_.close();
    size_ = transfer_.size_bytes != 0 && keep > transfer_.size_bytes ? 0 : keep;
    if (fs::exists(transfer_.incomplete)) fs::resize_file(transfer_.incomplete, size_);
    digest_ = transfer_.digest ? transfer_.digest() : nullptr;
    if (digest_ != nullptr && size_ > 0) digest_file();
    file_.open(transfer_.incomplete, std::ios::binary | std::ios::app);
    if (!file_) fail();
  }

  void append(std::string_view bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file_) fail();
    if (digest_ != nullptr) digest_->update(bytes);
    size_ += bytes.size();
    if (transfer_.on_bytes) transfer_.on_bytes(size_);
  }

  /// Closes the file; the digest as hex, or nothing when there is none.
  std::optional<std::string> finish() {
    file_.close();
    if (!file_) fail();
    return digest_ == nullptr ? std::nullopt : std::optional(digest_->finish());
  }

 private:
  void digest_file() {
    std::ifstream in(transfer_.incomplete, std::ios::binary);
    std::vector<char> buffer(1 << 20);
    while (in) {
      in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      digest_->update({buffer.data(), static_cast<size_t>(in.gcount())});
    }
  }

  [[noreturn]] void fail() const { throw DiskError(transfer_.incomplete); }

  const Transfer& transfer_;
  std::ofstream file_;
  std::unique_ptr<Digest> digest_;
  uint64_t size_ = 0;
};

/// One request: the head of its answer, with the body appended to `file` when the status is 200 or 206.
http::Hop receive(http::Client& client, const Transfer& transfer, Unfinished& file, const Watch& watch) {
  http::ClientRequest request;
  request.url = transfer.url;
  request.headers = transfer.headers;
  request.cancel = watch.cancel;
  if (file.size() > 0) request.range_begin = file.size();
  bool take = false;
  std::exception_ptr
      failure;  // of this side; kept, since the client may be C code that no exception may cross
  request.on_head = [&](const http::Hop& hop) {
    take = hop.status == 200 || hop.status == 206;
    // A server that does not know ranges sends everything again.
    return guarded(failure, [&] {
      if (hop.status == 200 && file.size() > 0) file.restart(0);
    });
  };
  request.on_body = [&](std::string_view bytes) {
    return guarded(failure, [&] {
      if (take) file.append(bytes);
    });
  };
  try {
    return client.send(request).last;
  } catch (const base::Error&) {
    if (failure) std::rethrow_exception(failure);
    throw;
  }
}

/// Receives until the file has its size; whatever can be retried is.
void receive_all(http::Client& client, const Transfer& transfer, Unfinished& file, const RetryPolicy& retry,
                 const Watch& watch) {
  Attempts attempts(retry, transfer.what, watch);
  while (transfer.size_bytes == 0 || file.size() < transfer.size_bytes) {
    const uint64_t before = file.size();
    std::optional<base::Error> problem;
    int server_delay_ms = 0;
    try {
      const http::Hop head = receive(client, transfer, file, watch);
      if (head.status == 416) file.restart(0);
      if (head.status != 200 && head.status != 206) {
        problem = status_error(head, transfer.what);
        server_delay_ms = retry_after_ms(head);
      } else if (transfer.size_bytes == 0) {
        return;
      }
    } catch (const DiskError&) {
      throw;
    } catch (const base::Error& error) {
      if (watch.cancelled()) cancelled(transfer.what);
      problem = error;
    }
    if (transfer.size_bytes != 0 && file.size() >= transfer.size_bytes) return;
    if (!problem) problem = short_error(transfer, file.size());
    if (!is_worth_retrying(*problem)) throw *problem;
    attempts.failed(*problem, server_delay_ms, file.size() > before);
  }
}

}  // namespace

void transfer(http::Client& client, const Transfer& transfer, const RetryPolicy& retry, const Watch& watch) {
  Unfinished file(transfer);
  const bool resumed = file.size() > 0;
  if (transfer.on_bytes) transfer.on_bytes(file.size());
  for (int round = 0;; ++round) {
    receive_all(client, transfer, file, retry, watch);
    const uint64_t size = file.size();
    const std::optional<std::string> digest = file.finish();
    const bool size_is_right = transfer.size_bytes == 0 || size == transfer.size_bytes;
    if (size_is_right && (!digest || *digest == transfer.expected_digest)) break;
    if (resumed && round == 0) {
      // The part from an earlier run may be what is wrong: once more from the start.
      file.restart(0);
      continue;
    }
    fs::remove(transfer.incomplete);
    throw base::Error(
        base::Code::kCorrupt,
        fmt::format("[store.pull] expected {} to have {} bytes and digest {}; got {} bytes and {}",
                    transfer.what, transfer.size_bytes, transfer.expected_digest, size,
                    digest.value_or("none")));
  }
  fs::rename(transfer.incomplete, transfer.target);
}

http::ClientResponse ask(http::Client& client, const http::ClientRequest& request, const RetryPolicy& retry,
                         const Watch& watch) {
  const std::string what = http::public_url(request.url);
  Attempts attempts(retry, what, watch);
  http::ClientRequest copy = request;
  copy.cancel = watch.cancel;
  for (;;) {
    std::optional<base::Error> problem;
    int server_delay_ms = 0;
    try {
      http::ClientResponse response = client.send(copy);
      if (!is_worth_retrying(response.last.status)) return response;
      problem = status_error(response.last, what);
      server_delay_ms = retry_after_ms(response.last);
    } catch (const base::Error& error) {
      if (watch.cancelled()) cancelled(what);
      if (!is_worth_retrying(error)) throw;
      problem = error;
    }
    attempts.failed(*problem, server_delay_ms, false);
  }
}

uint64_t add_bytes(uint64_t a, uint64_t b) {
  return b > std::numeric_limits<uint64_t>::max() - a ? std::numeric_limits<uint64_t>::max() : a + b;
}

void require_disk(const fs::path& folder, uint64_t needed_bytes, std::string_view what) {
  std::error_code error;
  fs::create_directories(folder, error);
  const auto space = fs::space(folder, error);
  if (error) {
    throw base::Error(base::Code::kIo, fmt::format("[store.pull] expected a usable folder; {}: {}",
                                                   folder.string(), error.message()));
  }
  const uint64_t wanted_bytes = add_bytes(needed_bytes, kSpareBytes);
  if (space.available < wanted_bytes) {
    throw base::Error(
        base::Code::kIo,
        fmt::format("[store.pull] expected {} MB of free disk for {} in {}; {} MB are free",
                    wanted_bytes / 1000000 + 1, what, folder.string(), space.available / 1000000));
  }
}

}  // namespace penstock::store
