#include "library/blobs.h"

#include <chrono>
#include <deque>
#include <fstream>
#include <mutex>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "store/transfer.h"

namespace penstock::library {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;

constexpr std::string_view kPartial = ".partial";

}  // namespace

/// The pieces wait in `pieces`; at most one task takes them at a time.
struct Blobs::Upload::State : std::enable_shared_from_this<Blobs::Upload::State> {
  static constexpr size_t kMostWaitingBytes = 4 << 20;

  State(serve::Workers& pool, fs::path target, std::string expected, fs::path part,
        std::function<void()> call)
      : workers(pool),
        path(std::move(target)),
        sha256(std::move(expected)),
        partial(std::move(part)),
        wake(std::move(call)),
        out(partial, std::ios::binary | std::ios::trunc) {
    if (!out)
      throw Error(Code::kIo, "[library.upload] expected to write " + partial.string() + "; got an error");
  }

  void schedule_locked() {
    if (running) return;
    running = workers.post([self = shared_from_this()] { self->run(); });
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!pieces.empty()) {
      const std::string piece = std::move(pieces.front());
      pieces.pop_front();
      lock.unlock();
      take(piece);
      lock.lock();
      const bool was_full = waiting_bytes >= kMostWaitingBytes;
      waiting_bytes -= piece.size();
      if (was_full && waiting_bytes < kMostWaitingBytes) wake();
    }
    running = false;
    if (!done || finished) return;
    finished = true;
    const auto call = std::exchange(done, nullptr);
    lock.unlock();
    call(close());
  }

  void take(const std::string& piece) {
    if (failure() != nullptr) return;
    digest.update(piece);
    if (out.write(piece.data(), static_cast<std::streamsize>(piece.size()))) return;
    fail(std::make_exception_ptr(
        Error(Code::kIo, "[library.upload] expected room for the upload; the disk took no more")));
  }

  std::exception_ptr close() {
    if (const auto why = failure()) return why;
    try {
      out.close();
      if (out.fail())
        throw Error(Code::kIo, "[library.upload] expected room for the upload; the disk took no more");
      if (const std::string got = digest.finish(); got != sha256) {
        throw Error(
            Code::kInvalidRequest,
            "[library.upload] expected bytes with the digest sha256:" + sha256 + "; got sha256:" + got,
            "digest");
      }
      base::sync_file(partial);
      fs::rename(partial, path);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  std::exception_ptr failure() {
    const std::lock_guard lock(mutex);
    return error;
  }
  void fail(std::exception_ptr why) {
    const std::lock_guard lock(mutex);
    error = std::move(why);
  }

  serve::Workers& workers;
  const fs::path path;
  const std::string sha256;
  const fs::path partial;
  const std::function<void()> wake;

  // Of the task that runs:
  std::ofstream out;
  base::Digest digest{base::Algorithm::kSha256};

  std::mutex mutex;
  std::deque<std::string> pieces;
  size_t waiting_bytes = 0;
  bool running = false, finished = false;
  std::function<void(std::exception_ptr)> done;
  std::exception_ptr error;

  ~State() {
    std::error_code ignored;
    fs::remove(partial, ignored);
  }
};

Blobs::Upload::Upload(std::shared_ptr<State> state) : state_(std::move(state)) {}
Blobs::Upload::~Upload() = default;

bool Blobs::Upload::is_ready() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting_bytes < State::kMostWaitingBytes;
}

void Blobs::Upload::write(std::string piece) {
  if (const auto why = state_->failure()) std::rethrow_exception(why);
  const std::lock_guard lock(state_->mutex);
  state_->waiting_bytes += piece.size();
  state_->pieces.push_back(std::move(piece));
  state_->schedule_locked();
}

void Blobs::Upload::finish(std::function<void(std::exception_ptr)> done) {
  const std::lock_guard lock(state_->mutex);
  state_->done = std::move(done);
  state_->schedule_locked();
}

Blobs::Blobs(fs::path folder, serve::Workers& workers) : folder_(std::move(folder)), workers_(workers) {}

std::string Blobs::digest_of(std::string_view text) {
  constexpr size_t kPrefix = 7;
  if ((text.starts_with("sha256:") || text.starts_with("sha256-")) && base::is_hex(text.substr(kPrefix), 64))
    return std::string(text.substr(kPrefix));
  throw Error(Code::kInvalidRequest,
              "[library.blobs] expected a digest as sha256: and 64 hex digits; got another text", "digest");
}

bool Blobs::has(const std::string& sha256) const {
  std::error_code error;
  return fs::is_regular_file(path(sha256), error);
}

void Blobs::remove_if_unused(const std::string& sha256) {
  std::error_code error;
  if (fs::hard_link_count(path(sha256), error) == 1 && !error) fs::remove(path(sha256), error);
}

void Blobs::remove_leftovers() {
  constexpr auto kDay = std::chrono::hours(24);
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    const bool is_old = file.last_write_time(error) + kDay < fs::file_time_type::clock::now();
    const bool is_partial = file.path().extension() == kPartial;
    if (is_partial || (is_old && file.hard_link_count(error) == 1)) fs::remove(file.path(), error);
  }
}

std::shared_ptr<Blobs::Upload> Blobs::receive(std::string sha256, uint64_t announced_bytes,
                                              std::function<void()> wake) {
  std::error_code error;
  fs::create_directories(folder_, error);
  store::require_disk(folder_, announced_bytes, "the upload");
  const fs::path partial = folder_ / ("upload-" + std::to_string(next_++) + std::string(kPartial));
  const fs::path target = path(sha256);
  return std::make_shared<Upload>(
      std::make_shared<Upload::State>(workers_, target, std::move(sha256), partial, std::move(wake)));
}

}  // namespace penstock::library
