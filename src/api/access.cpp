#include "api/access.h"

#include <algorithm>
#include <cctype>
#include <random>

#include "api/health.h"
#include "api/openai/errors.h"
#include "base/error.h"

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

std::optional<http::Response> Access::refuse(const http::Request& request) const {
  // A browser's preflight carries no key; it learns nothing but the CORS headers.
  if (options_.api_key.empty() || request.method == "OPTIONS" || is_probe(request.path)) return std::nullopt;
  if (has_key(request)) return std::nullopt;
  http::Response response = openai::error_response(
      base::Error(base::Code::kUnauthorized,
                  "[api.access] expected the API key as Authorization: Bearer KEY; got none or another"));
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
  response.headers.push_back(
      {"Access-Control-Expose-Headers",
       "x-request-id, x-penstock-ignored, x-penstock-executor, x-penstock-batch-width, Retry-After"});
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
  static thread_local std::mt19937_64 random(std::random_device{}());
  constexpr char kHex[] = "0123456789abcdef";
  std::string id = "req_";
  for (int i = 0; i < 24; ++i) id += kHex[random() & 15];
  return id;
}

}  // namespace penstock::api
