// The hub's HTTP protocol: what a repository holds, and its files into the cache. One owner thread. The token
// goes to the endpoint's own host only and is never logged; offline means that nothing here opens a
// connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "http/client.h"
#include "store/hub_cache.h"
#include "store/transfer.h"
#include "store/watch.h"

namespace penstock::store {

struct RepoInfo {
  std::string repo;
  std::string commit;              // 40 hex digits
  std::vector<std::string> files;  // every file's path
};

struct FileInfo {
  std::string file;
  std::string etag;  // SHA-256 of a large file, git's blob hash of a small one
  uint64_t size_bytes = 0;
};

class HubClient {
 public:
  HubClient(config::HubEnvironment hub, http::ClientOptions options, RetryPolicy retry);

  /// GET api/models/REPO/revision/REVISION. Throws Error: kUnauthorized with what to do about HF_TOKEN,
  /// kNotFound, kUnavailable when offline, kIo.
  RepoInfo info(std::string_view repo, std::string_view revision, const Watch& watch);

  /// HEAD REPO/resolve/COMMIT/FILE.
  FileInfo file_info(const RepoInfo& repo, std::string_view file, const Watch& watch);

  /// Downloads the files into the cache, links the snapshot and writes refs/REVISION. Files that are here
  /// already cost one HEAD. Progress counts the bytes of all files.
  Snapshot pull(HubCache& cache, const RepoInfo& repo, std::string_view revision,
                const std::vector<std::string>& files, const Watch& watch);

 private:
  http::ClientRequest request(std::string method, const std::string& path) const;
  void fetch(HubCache& cache, const RepoInfo& repo, const FileInfo& file, uint64_t before_bytes,
             uint64_t total_bytes, const Watch& watch);
  [[noreturn]] void refuse(int status, std::string_view repo, std::string_view server_text) const;

  config::HubEnvironment hub_;
  http::Client client_;
  RetryPolicy retry_;
};

}  // namespace penstock::store
