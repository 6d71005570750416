// Which handler answers a method and path. Filled before the server starts, then only read, by all io
// threads. Literal segments win over {name}, and {name} over {name...}.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/message.h"

namespace penstock::http {

class Router {
 public:
  struct Match {
    const Handler* handler = nullptr;  // null: no such method here, or an upload
    const Upload* upload = nullptr;
    std::map<std::string, std::string> params;  // fully decoded, %2F too
    std::string allow;                          // value of the Allow header: "GET, HEAD, OPTIONS"
  };

  /// Pattern: "/v1/models/{id}" (one segment) or "/v1/models/{id...}" (one or more; literal segments may
  /// follow). A GET route also answers HEAD. Throws Error(kInternal) for a bad pattern or a route that is
  /// there already.
  void add(std::string_view method, std::string_view pattern, Handler handler);

  /// The same for a route whose body is handed on while it arrives.
  void add_upload(std::string_view method, std::string_view pattern, Upload upload);

  /// `raw_path` is still percent-encoded. Nothing when no route has that path.
  std::optional<Match> match(std::string_view method, std::string_view raw_path) const;

  /// The patterns of all routes in words, for an error: "/health, /v1/models".
  std::string paths() const;

 private:
  struct Segment {
    enum Kind { kLiteral, kOne, kRest } kind;
    std::string text;  // literal or parameter name
  };
  using Target = std::variant<Handler, Upload>;
  struct Route {
    std::vector<Segment> segments;
    std::map<std::string, Target> methods;
  };
  using Pieces = std::vector<std::string_view>;

  void add_target(std::string_view method, std::string_view pattern, Target target);
  static std::vector<Segment> parse(std::string_view pattern);
  static bool matches(const Route& route, const Pieces& pieces, std::map<std::string, std::string>& params);
  static std::string allow_of(const Route& route);

  std::vector<Route> routes_;  // most specific first
};

}  // namespace penstock::http
