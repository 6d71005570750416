#include "api/access.h"

#include <algorithm>
#include <cctype>

#include "api/body.h"
#include "api/error_shape.h"
#include "api/health.h"
#include "api/surface.h"

namespace penstock::api {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

/// The key after "Bearer ", or nothing.
std::optional<std::string_view> bearer_key(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return std::nullopt;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(header[i])) != kScheme[i]) return std::nullopt;
  }
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  return header;
}

/// "Example.com.:80" is "example.com", "[::1]:80" is "[::1]".
std::string host_name(std::string_view host) {
  const size_t bracket = host.rfind(']');
  host = host.substr(0, host.find(':', bracket == std::string_view::npos ? 0 : bracket));
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string name(host);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? 0 : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

bool Access::has_key(const http::Request& request) const {
  const std::string_view authorization = request.header("authorization");
  const std::string_view plain = request.header("x-api-key");
  // Where both headers are there, both must be right.
  if (authorization.empty() && plain.empty()) return false;
  const auto bearer = bearer_key(authorization);
  const bool bearer_is_right =
      authorization.empty() || (bearer && equal_in_constant_time(*bearer, options_.api_key));
  const bool plain_is_right = plain.empty() || equal_in_constant_time(plain, options_.api_key);
  return bearer_is_right && plain_is_right;
}

/// A page of the web can point a name of its own at this machine and is then of the server's own origin to
/// the browser. Such a name is one of the public DNS: it has a dot, is no address, and its last label is not
/// one that is kept for private use (RFC 6761, RFC 6762, and .internal by ICANN).
bool Access::is_trusted_host(std::string_view host) const {
  const std::string name = host_name(host);
  const bool is_address = name.starts_with('[') || name.find_first_not_of("0123456789.") == std::string::npos;
  if (is_address || name.find('.') == std::string::npos) return true;
  for (const char* suffix : {".localhost", ".local", ".internal"})
    if (name.ends_with(suffix)) return true;
  return std::any_of(
      options_.trusted_hosts.begin(), options_.trusted_hosts.end(),
      [&](const std::string& trusted) { return trusted == "*" || host_name(trusted) == name; });
}

std::optional<http::Response> Access::refuse(const http::Request& request) const {
  if (options_.checks_host && !is_trusted_host(request.header("host"))) {
    return error_response(
        CodedError(
            base::Code::kForbidden, "host_not_trusted",
            "[api.access] expected a Host that is an address, localhost or one of --trusted-hosts; got " +
                std::string(request.header("host"))),
        request);
  }
  // A browser's preflight carries no key; it learns nothing but the CORS headers.
  if (options_.api_key.empty() || request.method == "OPTIONS" || is_probe(request.path)) return std::nullopt;
  if (has_key(request)) return std::nullopt;
  http::Response response = error_response(
      base::Error(base::Code::kUnauthorized,
                  "[api.access] expected the API key as Authorization: Bearer KEY; got none or another"),
      request);
  response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

void Access::add_cors(const http::Request& request, http::Response& response) const {
  const std::string origin(request.header("origin"));
  if (origin.empty() || options_.cors_origins.empty()) return;
  const auto& allowed = options_.cors_origins;
  const bool any = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  response.headers.push_back({"Vary", "Origin"});
  if (!any && std::find(allowed.begin(), allowed.end(), origin) == allowed.end()) return;
  response.headers.push_back({"Access-Control-Allow-Origin", any ? "*" : origin});
  response.headers.push_back({"Access-Control-Expose-Headers",
                              "request-id, x-request-id, x-penstock-ignored, x-penstock-executor, "
                              "x-penstock-batch-width, Retry-After"});
  if (request.method != "OPTIONS") return;
  response.headers.push_back({"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"});
  const std::string_view asked = request.header("access-control-request-headers");
  response.headers.push_back(
      {"Access-Control-Allow-Headers", asked.empty() ? "authorization, content-type" : std::string(asked)});
  response.headers.push_back({"Access-Control-Max-Age", "600"});
}

std::string request_id(const http::Request& request) {
  const std::string_view given = request.header("x-request-id");
  const bool is_fit =
      !given.empty() && given.size() <= kMaxRequestIdBytes &&
      std::all_of(given.begin(), given.end(), [](unsigned char c) {
        return c < 128 && (std::isalnum(c) != 0 ||
                           std::string_view("-_.:").find(static_cast<char>(c)) != std::string_view::npos);
      });
  if (is_fit) return std::string(given);
  return make_id("req_");
}

}  // namespace penstock::api
