#include "store/hub_cache.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "store/digest.h"

namespace penstock::store {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "models--";

std::string folder_name(std::string_view repo) {
  std::string result(kPrefix);
  for (const char c : repo) c == '/' ? result += "--" : result += c;
  return result;
}

std::string repo_of(std::string_view folder) {
  std::string repo(folder.substr(kPrefix.size()));
  if (const auto at = repo.find("--"); at != std::string::npos) repo.replace(at, 2, "/");
  return repo;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

/// A name beside `path` that no other thread or process uses.
fs::path fresh_name(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.parent_path() / ("." + path.filename().string() + "." + std::to_string(getpid()) + "." +
                               std::to_string(counter.fetch_add(1)) + ".new");
}

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

/// Where a snapshot's links end, without symbolic links in between.
std::set<fs::path> blobs_of(const fs::path& folder) {
  std::set<fs::path> result;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_symlink()) result.insert(fs::weakly_canonical(entry.path(), error));
  }
  return result;
}

[[noreturn]] void io_error(const fs::path& path, const std::error_code& error) {
  throw base::Error(base::Code::kIo,
                    "[store.cache] expected to write " + path.string() + "; " + error.message());
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) io_error(folder, error);
}

}  // namespace

bool is_repo_id(std::string_view text) {
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  const auto slash = text.find('/');
  const std::string_view last = slash == std::string_view::npos ? text : text.substr(slash + 1);
  const std::string_view org = slash == std::string_view::npos ? "org" : text.substr(0, slash);
  const auto part = [&](std::string_view word) {
    return !word.empty() && word.size() <= 96 && std::all_of(word.begin(), word.end(), good) &&
           word.front() != '.' && word.front() != '-' && word.back() != '.' && word.back() != '-';
  };
  return part(org) && part(last) && text.find("--") == std::string_view::npos &&
         text.find("..") == std::string_view::npos && !text.ends_with(".git");
}

bool is_safe_file(std::string_view file) {
  if (file.empty() || file.find('\\') != std::string_view::npos || file.find('\0') != std::string_view::npos)
    return false;
  for (size_t begin = 0; begin <= file.size();) {
    const auto end = std::min(file.find('/', begin), file.size());
    const std::string_view part = file.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

fs::path HubCache::repo_folder(std::string_view repo) const {
  return root_ / folder_name(repo);
}

fs::path HubCache::blob(std::string_view repo, std::string_view etag) const {
  return repo_folder(repo) / "blobs" / etag;
}

std::optional<Snapshot> HubCache::find(std::string_view repo, std::string_view revision) const {
  if (!is_repo_id(repo) || !is_safe_file(revision)) return std::nullopt;
  const fs::path folder = repo_folder(repo);
  for (const std::string& commit : {first_line(folder / "refs" / revision), std::string(revision)}) {
    if (is_safe_file(commit) && fs::is_directory(folder / "snapshots" / commit)) {
      return Snapshot{std::string(repo), commit, folder / "snapshots" / commit};
    }
  }
  return std::nullopt;
}

std::optional<CachedRepo> HubCache::describe(std::string_view repo) const {
  CachedRepo result{std::string(repo), repo_folder(repo), 0, {}, {}};
  std::error_code error;
  if (!fs::is_directory(result.folder, error)) return std::nullopt;
  for (const auto& entry : fs::recursive_directory_iterator(result.folder, error)) {
    // Links are not followed, so a blob counts once however many snapshots show it.
    if (!entry.is_symlink() && entry.is_regular_file()) result.size_bytes += size_of(entry.path());
    if (entry.path().extension() == ".incomplete") result.unfinished.push_back(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(result.folder / "snapshots", error)) {
    result.snapshots.push_back({result.repo, entry.path().filename().string(), entry.path()});
  }
  std::sort(result.snapshots.begin(), result.snapshots.end(),
            [](const Snapshot& a, const Snapshot& b) { return a.commit < b.commit; });
  return result;
}

std::vector<CachedRepo> HubCache::list() const {
  std::vector<CachedRepo> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_, error)) {
    const std::string folder = entry.path().filename().string();
    if (!folder.starts_with(kPrefix) || !entry.is_directory()) continue;
    if (auto repo = describe(repo_of(folder))) result.push_back(std::move(*repo));
  }
  std::sort(result.begin(), result.end(),
            [](const CachedRepo& a, const CachedRepo& b) { return a.repo < b.repo; });
  return result;
}

uint64_t HubCache::remove(std::string_view repo) {
  const auto found = is_repo_id(repo) ? describe(repo) : std::nullopt;
  if (!found) {
    throw base::Error(base::Code::kNotFound,
                      "[store.rm] expected a model of `penstock list`; got " + std::string(repo));
  }
  std::error_code error;
  fs::remove_all(found->folder, error);
  if (error) io_error(found->folder, error);
  fs::remove_all(root_ / ".locks" / folder_name(repo), error);
  return found->size_bytes;
}

uint64_t HubCache::remove_file(const Snapshot& snapshot, const fs::path& file) {
  std::error_code error;
  const fs::path blob = fs::weakly_canonical(snapshot.folder / file, error);
  const bool is_link = fs::is_symlink(snapshot.folder / file);
  const uint64_t size = size_of(blob);
  if (!fs::remove(snapshot.folder / file, error) || error) io_error(snapshot.folder / file, error);
  bool shared = false, empty = true;
  for (const auto& entry : fs::directory_iterator(repo_folder(snapshot.repo) / "snapshots", error)) {
    const auto others = blobs_of(entry.path());
    shared |= others.contains(blob);
    empty &= fs::is_empty(entry.path(), error);
  }
  if (empty) return remove(snapshot.repo) + (is_link ? 0 : size);
  if (!is_link || shared) return is_link ? 0 : size;
  return fs::remove(blob, error) ? size : 0;
}

void HubCache::link(std::string_view repo, std::string_view commit, std::string_view file,
                    std::string_view etag) {
  if (!is_safe_file(file) || !is_safe_file(commit) || !is_safe_file(etag)) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[store.cache] expected a file name inside the repository; got " + std::string(file));
  }
  const fs::path link = repo_folder(repo) / "snapshots" / commit / file;
  make_folders(link.parent_path());
  const fs::path target = blob(repo, etag).lexically_relative(link.parent_path());
  const fs::path fresh = fresh_name(link);
  std::error_code error;
  fs::create_symlink(target, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) io_error(link, error);
}

void HubCache::write_ref(std::string_view repo, std::string_view revision, std::string_view commit) {
  const fs::path ref = repo_folder(repo) / "refs" / revision;
  make_folders(ref.parent_path());
  const fs::path fresh = fresh_name(ref);
  std::ofstream(fresh, std::ios::binary) << commit;
  std::error_code error;
  fs::rename(fresh, ref, error);
  if (error) io_error(ref, error);
}

BlobLock::BlobLock(const HubCache& cache, std::string_view repo, std::string_view etag,
                   const std::atomic<bool>* cancel) {
  const fs::path folder = cache.root() / ".locks" / folder_name(repo);
  make_folders(folder);
  const fs::path file = folder / (std::string(etag) + ".lock");
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) io_error(file, std::error_code(errno, std::generic_category()));
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK)
      io_error(file, std::error_code(errno, std::generic_category()));
    if (cancel != nullptr && cancel->load()) {
      ::close(descriptor_);
      throw base::Error(base::Code::kCancelled,
                        "[store.lock] expected to get " + file.string() + "; was stopped");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

BlobLock::~BlobLock() {
  ::close(descriptor_);
}

}  // namespace penstock::store
