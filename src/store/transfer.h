// One file over HTTP onto the disk: resumed where it stopped, retried a bounded number of times, checked, and
// moved to its place in one step. Runs on the caller's thread. Knows neither hub nor package index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/client.h"
#include "store/digest.h"
#include "store/watch.h"

namespace penstock::store {

struct RetryPolicy {
  int attempts = 5;          // in a row without a new byte
  int first_delay_ms = 500;  // doubled each time, at most 8 s; a Retry-After of the server wins
};

struct Transfer {
  std::string url;
  std::vector<http::Header> headers;
  std::string what;                                 // for errors and progress
  std::filesystem::path incomplete;                 // kept when the transfer stops, so that it can go on
  std::filesystem::path target;                     // where the whole, checked file goes
  uint64_t size_bytes = 0;                          // 0: not known
  std::function<std::unique_ptr<Digest>()> digest;  // a fresh one; may give null
  std::string expected_digest;                      // lower-case hex
  std::function<void(uint64_t)> on_bytes;           // bytes of this file on disk so far
};

/// Throws Error: kIo and kTimeout when the attempts are used up, kCorrupt when size or digest is wrong (the
/// unfinished file is then removed), kUnauthorized, kNotFound, kCancelled.
void transfer(http::Client& client, const Transfer& transfer, const RetryPolicy& retry, const Watch& watch);

/// One small answer (JSON or HTML), with the same retries. Returns any status below 500 except 429.
http::ClientResponse ask(http::Client& client, const http::ClientRequest& request, const RetryPolicy& retry,
                         const Watch& watch);

/// The sum, or the largest value where it does not fit: sizes are what a server announces, so they may be
/// absurd.
uint64_t add_bytes(uint64_t a, uint64_t b);

/// Throws Error(kIo) unless the disk that holds `folder` has `needed_bytes` and some room to spare.
void require_disk(const std::filesystem::path& folder, uint64_t needed_bytes, std::string_view what);

}  // namespace penstock::store
