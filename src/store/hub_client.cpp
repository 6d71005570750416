#include "store/hub_client.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "http/uri.h"

namespace penstock::store {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRelativeRedirects = 5;

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The etag without quotes and the mark of a weak one.
std::string bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

/// An etag names a file of the cache, so it may hold nothing that a path gives a meaning.
bool is_safe_etag(std::string_view etag) {
  return !etag.empty() && etag.size() <= 128 && std::all_of(etag.begin(), etag.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  });
}

bool is_redirect(int status) {
  return status >= 301 && status <= 308 && status != 304;
}

}  // namespace

HubClient::HubClient(config::HubEnvironment hub, http::ClientOptions options, RetryPolicy retry)
    : hub_(std::move(hub)), client_(std::move(options)), retry_(retry) {}

http::ClientRequest HubClient::request(std::string method, const std::string& path) const {
  if (hub_.offline) {
    throw base::Error(
        base::Code::kUnavailable,
        "[store.pull] expected the network to be allowed; HF_HUB_OFFLINE is set, and the files are not here");
  }
  http::ClientRequest request;
  request.method = std::move(method);
  request.url = hub_.endpoint + path;
  request.connect_timeout_ms = 5000;
  // A compressed answer would not have the size and digest that the hub announces.
  request.headers.push_back({"Accept-Encoding", "identity"});
  if (!hub_.token.empty()) request.headers.push_back({"Authorization", "Bearer " + hub_.token});
  return request;
}

void HubClient::refuse(int status, std::string_view repo, std::string_view server_text) const {
  if (status == 401 || status == 403) {
    const std::string advice =
        hub_.token.empty()
            ? "set HF_TOKEN to a token of an account that may read it (and accept its terms on the hub)"
            : fmt::format(
                  "the token of {} may not read it: accept its terms on the hub, or set HF_TOKEN to another "
                  "one",
                  hub_.token_origin);
    throw base::Error(
        base::Code::kUnauthorized,
        fmt::format(
            "[store.pull] expected to read {} at {}; it is private, gated or misspelt (status {}): {}", repo,
            http::public_url(hub_.endpoint), status, advice));
  }
  throw base::Error(
      status == 404 ? base::Code::kNotFound : base::Code::kIo,
      fmt::format("[store.pull] expected {} at {}; got status {}{}{}", repo, http::public_url(hub_.endpoint),
                  status, server_text.empty() ? "" : ": ", server_text.substr(0, 200)));
}

RepoInfo HubClient::info(std::string_view repo, std::string_view revision, const Watch& watch) {
  const auto response =
      ask(client_,
          request("GET", fmt::format("/api/models/{}/revision/{}", repo, http::percent_encode(revision))),
          retry_, watch);
  if (response.last.status != 200) {
    refuse(response.last.status, repo, response.last.header("X-Error-Message"));
  }
  const base::Json json = base::parse_json(response.body, "the hub's answer");
  if (!json.is_object() || !json.contains("sha") || !json["sha"].is_string() || !json.contains("siblings") ||
      !json["siblings"].is_array()) {
    throw base::Error(base::Code::kIo,
                      "[store.pull] expected sha and siblings in the hub's answer; they are missing");
  }
  RepoInfo result{std::string(repo), json["sha"], {}};
  for (const auto& sibling : json["siblings"]) {
    const std::string file = sibling.is_object() ? sibling.value("rfilename", "") : "";
    if (is_safe_file(file)) result.files.push_back(file);
  }
  if (!is_hex(result.commit, 40)) {
    throw base::Error(base::Code::kIo,
                      "[store.pull] expected a commit of 40 hex digits from the hub; got something else");
  }
  return result;
}

FileInfo HubClient::file_info(const RepoInfo& repo, std::string_view file, const Watch& watch) {
  http::ClientRequest head = request(
      "HEAD", fmt::format("/{}/resolve/{}/{}", repo.repo, repo.commit, http::percent_encode(file, true)));
  // The hub's own answer has what is needed; the redirect to its storage is for GET only. A renamed
  // repository is a redirect inside the hub, and is followed.
  head.max_redirects = 0;
  http::ClientResponse response = ask(client_, head, retry_, watch);
  for (int hop = 0; hop < kMostRelativeRedirects && is_redirect(response.last.status); ++hop) {
    const std::string_view location = response.last.header("Location");
    if (!location.starts_with('/') || location.starts_with("//")) break;
    head.url = http::origin_of(hub_.endpoint) + std::string(location);
    response = ask(client_, head, retry_, watch);
  }
  const http::Hop& answer = response.last;
  if (answer.status != 200 && !is_redirect(answer.status)) {
    refuse(answer.status, fmt::format("{} of {}", file, repo.repo), answer.header("X-Error-Message"));
  }
  const std::string_view linked = answer.header("X-Linked-Etag");
  const std::string_view size = answer.header("X-Linked-Size");
  FileInfo info{std::string(file), bare_etag(linked.empty() ? answer.header("ETag") : linked),
                number(size.empty() ? answer.header("Content-Length") : size)};
  if (!is_safe_etag(info.etag)) {
    throw base::Error(base::Code::kIo,
                      fmt::format("[store.pull] expected an etag for {}; got '{}'", file, info.etag));
  }
  return info;
}

void HubClient::fetch(HubCache& cache, const RepoInfo& repo, const FileInfo& file, uint64_t before_bytes,
                      uint64_t total_bytes, const Watch& watch) {
  const fs::path blob = cache.blob(repo.repo, file.etag);
  const std::string sha256 = is_hex(file.etag, 64) ? file.etag : "";
  const BlobLock lock(cache, repo.repo, file.etag, watch.cancel);
  if (!fs::exists(blob)) {
    const http::ClientRequest get = request("GET", fmt::format("/{}/resolve/{}/{}", repo.repo, repo.commit,
                                                               http::percent_encode(file.file, true)));
    Transfer work;
    work.url = get.url;
    work.headers = get.headers;
    work.what = file.file;
    work.incomplete = blob.string() + ".incomplete";
    work.target = blob;
    work.size_bytes = file.size_bytes;
    work.digest = [&] { return digest_for_etag(file.etag, file.size_bytes); };
    work.expected_digest = file.etag;
    work.on_bytes = [&](uint64_t bytes) {
      watch.progress({file.file, before_bytes + bytes, total_bytes, sha256});
    };
    try {
      transfer(client_, work, retry_, watch);
    } catch (const base::Error& error) {
      if (error.code() == base::Code::kUnauthorized) refuse(403, repo.repo, "");
      throw;
    }
  }
  watch.progress({file.file, before_bytes + file.size_bytes, total_bytes, sha256});
  cache.link(repo.repo, repo.commit, file.file, file.etag);
}

Snapshot HubClient::pull(HubCache& cache, const RepoInfo& repo, std::string_view revision,
                         const std::vector<std::string>& files, const Watch& watch) {
  std::vector<FileInfo> infos;
  uint64_t total_bytes = 0, needed_bytes = 0;
  for (const auto& file : files) {
    infos.push_back(file_info(repo, file, watch));
    total_bytes = add_bytes(total_bytes, infos.back().size_bytes);
    const fs::path blob = cache.blob(repo.repo, infos.back().etag);
    if (!fs::exists(blob)) needed_bytes = add_bytes(needed_bytes, infos.back().size_bytes);
    std::error_code error;
    const auto have = fs::file_size(blob.string() + ".incomplete", error);
    if (!error) needed_bytes -= std::min<uint64_t>(have, needed_bytes);
  }
  require_disk(cache.root(), needed_bytes, repo.repo);
  uint64_t done_bytes = 0;
  for (const auto& info : infos) {
    fetch(cache, repo, info, done_bytes, total_bytes, watch);
    done_bytes += info.size_bytes;
  }
  cache.write_ref(repo.repo, revision, repo.commit);
  return {repo.repo, repo.commit, cache.repo_folder(repo.repo) / "snapshots" / repo.commit};
}

}  // namespace penstock::store
