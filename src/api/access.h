// Who may call: the API key, the routes that are open without it, the names that the server may be called by,
// and which web origins may read the answers. Immutable once made; used by all io threads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace penstock::api {

struct AccessOptions {
  std::string api_key;                    // empty: everyone may call
  std::vector<std::string> cors_origins;  // "*" is any
  bool checks_host = false;
  std::vector<std::string> trusted_hosts = {};  // "*" is any
};

class Access {
 public:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}

  /// An answer for a request that may not be served: 403 for a Host that is not trusted, 401 without the
  /// right key on a route that needs one.
  std::optional<http::Response> refuse(const http::Request& request) const;

  /// Adds the CORS headers that the request's Origin is due, and answers a preflight of an allowed origin.
  void add_cors(const http::Request& request, http::Response& response) const;

 private:
  bool is_trusted_host(std::string_view host) const;
  bool has_key(const http::Request& request) const;

  const AccessOptions options_;
};

/// Compares in a time that depends on the length of `given` only.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

/// A client's id for its request if it is fit for a header (letters, digits, "-_.:", up to 128), else a new
/// one.
std::string request_id(const http::Request& request);

}  // namespace penstock::api
